#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// --cast GLOB=DTYPE: the leaves whose path matches get this dtype.
struct Cast {
  std::string glob;
  DType dtype = DType::f32;
};

/// A family of the user's own, or a changed one: it stands before the built-in ones, and instead of
/// the one of the same name.
struct MappingFile {
  std::string family;  ///< as the file says
  std::string name;    ///< the file's name without its folder: rule pointers begin with it
  std::string text;
  bool asked = true;  ///< --mapping names it, so that it must be the model's
};

/// What the user chose that changes the mapping.
struct MappingOptions {
  std::string scheme = "maxtext";  ///< "maxtext" or "hf"
  bool stacked = true;             ///< --layers
  std::map<std::string, std::string>
      options;  ///< --option NAME=VALUE, --with a,b (value "true"), --vocab N ("vocab")
  std::vector<std::string> include;  ///< globs on source names; empty = all
  std::vector<std::string> exclude;
  std::optional<DType>
      dtype;  ///< --dtype of all float leaves; absent: as stored, bf16 where it was quantised
  bool keep_dtype = false;         ///< --dtype keep: as stored, and quantised tensors are refused
  std::vector<MappingFile> files;  ///< --mapping FILE and HFSHARD_MAPPINGS; a plan keeps its own
  std::vector<Cast> casts;  ///< the last one that matches a leaf decides, whatever its rule says
};

}  // namespace hfshard
