#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// --cast GLOB=DTYPE: the leaves whose path matches get this dtype.
struct Cast {
  std::string glob;
  DType dtype = DType::f32;
};
/// `GLOB=DTYPE`, as --cast takes it and hfshard.json records it.
std::string to_string(const Cast& cast);
/// Parses it, up to the last `=`. Nothing if there is no glob, or no dtype of that name.
std::optional<Cast> parse_cast(std::string_view text);

/// A family of the user's own, or a changed one: it stands before the built-in ones, and instead of
/// the one of the same name.
struct MappingFile {
  std::string family;  ///< as the file says
  std::string name;    ///< the file's name without its folder: what a plan keeps
  std::string text;
  bool asked = true;      ///< --mapping names it, so that it must be the model's
  std::string path = {};  ///< as it was named, in errors; empty: `name`
};

/// Whose names the leaves have: a value of MappingOptions::scheme.
struct SchemeSummary {
  std::string name;
  std::string about;   ///< whose names they are
  bool stacks = true;  ///< whether layers may be stacked
};

/// What the user chose that changes the mapping.
struct MappingOptions {
  std::string scheme = "maxtext";  ///< one of list_schemes()
  /// --dialect, of scheme "hf": "files", names and shapes as they are stored, or one of
  /// list_dialects().
  std::string dialect = "files";
  bool stacked = true;                      ///< --layers; of a scheme that stacks none, nothing
  std::optional<std::uint64_t> num_layers;  ///< --num-layers: the first ones; absent: all
  std::map<std::string, std::string>
      options;  ///< --option NAME=VALUE, --with a,b (value "true"), --vocab N ("vocab")
  std::vector<std::string> include;  ///< globs on source names; empty = all
  std::vector<std::string> exclude;
  std::optional<DType>
      dtype;  ///< --dtype of all float leaves; absent: as stored, bf16 where it was quantised
  /// --dtype keep: as the source stores it, in every direction; quantized tensors are refused.
  bool keep_dtype = false;
  std::vector<MappingFile> files;  ///< --mapping FILE and HFSHARD_MAPPINGS; a plan keeps its own
  std::vector<Cast> casts;  ///< the last one that matches a leaf decides, whatever its rule says
  /// --prefix, of scheme "hf": what the names that are written begin with. Of a checkpoint of
  /// another program that has a model's own names: what its names begin with, which is taken off.
  std::string prefix;
  /// Leaves are no branches of a tree, so that they may have any names. A plan takes it from its
  /// target.
  bool flat_names = false;
};

/// How far a family is shown to be right; made by tests/interop/proof.py, never typed.
struct FamilyProof {
  std::uint64_t accounted = 0;      ///< published models whose every element has its place
  std::uint64_t executed = 0;       ///< checkpoints that were converted and verified
  std::uint64_t by_maxtext = 0;     ///< of them, bit-equal to what MaxText's own converter makes
  std::uint64_t by_own_oracle = 0;  ///< bit-equal to tests/oracle/make_numpy_oracles.py
  std::uint64_t by_torchtitan = 0;  ///< models of tests/torchtitan, bit-equal to its own adapter's
};

/// A rule of a family with the shapes that it has for one config.
struct ShownRule {
  std::string source;                 ///< name of its tensors; "(filled with 0)" of a fill
  std::optional<Shape> source_shape;  ///< absent of fills, and of what is dropped whole
  std::string source_pattern;
  std::string target;  ///< path of its leaves; "(dropped: why)" where there is none
  std::optional<Shape> target_shape;
  std::string target_pattern;
  std::string axes;         ///< logical axis per dim, "-" where one has none: "embed, -"
  std::string value;        ///< what happens to values, empty if nothing
  std::string rule;         ///< JSON pointer
  std::uint64_t count = 1;  ///< how many tensors of the loop it stands for
};

}  // namespace hfshard
