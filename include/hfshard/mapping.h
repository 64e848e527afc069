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
/// Returns `GLOB=DTYPE`, as --cast takes it and hfshard.json records it.
std::string to_string(const Cast& cast);
/// Parses a cast, with the glob up to the last `=`. Returns nothing if the glob is empty or the
/// dtype is unknown.
std::optional<Cast> parse_cast(std::string_view text);

/// A family that the user wrote or changed. It is tried before the built-in ones, and replaces the
/// one with the same name.
struct MappingFile {
  std::string family;  ///< stated in the file
  std::string name;    ///< file name without folder, for the plan
  std::string text;
  bool asked = true;      ///< named by --mapping; must be the model's
  std::string path = {};  ///< for errors; `name` if empty
};

/// A scheme: a set of names for leaves, such as MaxText's.
struct SchemeSummary {
  std::string name;
  std::string about;   ///< whose names they are
  bool stacks = true;  ///< can stack layers
};

/// The user's options that change the mapping.
struct MappingOptions {
  std::string scheme = "maxtext";  ///< one of list_schemes()
  /// --dialect, for scheme "hf": "files" for names and shapes as stored, or one of list_dialects().
  std::string dialect = "files";
  bool stacked = true;                      ///< --layers, if the scheme can stack
  std::optional<std::uint64_t> num_layers;  ///< --num-layers, or all
  /// --option NAME=VALUE, --with a,b (value "true"), --vocab N ("vocab").
  std::map<std::string, std::string> options;
  std::vector<std::string> include;  ///< globs on source names; all if empty
  std::vector<std::string> exclude;
  /// --drop: globs on source arrays whose values may be lost if the target has no place for them.
  std::vector<std::string> drop;
  bool untie = false;  ///< --untie: store the output head
  /// --dtype for all float leaves. If absent, the stored dtype, and bf16 for quantized tensors.
  std::optional<DType> dtype;
  /// --dtype keep: the stored dtype, in every direction. Refuses quantized tensors that the target
  /// can't store.
  bool keep_dtype = false;
  std::vector<MappingFile> files;  ///< --mapping FILE, HFSHARD_MAPPINGS
  std::vector<Cast> casts;         ///< the last match wins over rules
  /// --prefix. Scheme "hf" writes it before every name. Other schemes remove it from the names they
  /// read, as do exports of another program's checkpoint that has the model's own names.
  std::string prefix;
  /// Leaf names can be any text, not only keys of a tree. A plan takes it from its target.
  bool flat_names = false;
};

/// The family of a plan or checkpoint whose names and shapes no family's rules changed.
inline constexpr std::string_view kNoFamily = "hf";

/// How far a family is shown to be right. tests/interop/proof.py makes it; nobody types it.
struct FamilyProof {
  std::uint64_t accounted = 0;      ///< published models, fully mapped
  std::uint64_t executed = 0;       ///< checkpoints converted and verified
  std::uint64_t by_maxtext = 0;     ///< bit-equal to MaxText's converter
  std::uint64_t by_own_oracle = 0;  ///< bit-equal to make_numpy_oracles.py
  std::uint64_t by_torchtitan = 0;  ///< bit-equal to torchtitan's adapter
};

/// A rule of a family with its shapes for one config.
struct ShownRule {
  std::string source;                 ///< tensor name, or "(filled with 0)"
  std::optional<Shape> source_shape;  ///< absent for fills and whole drops
  std::string source_pattern;
  std::string target;  ///< leaf path, or "(dropped: why)"
  std::optional<Shape> target_shape;
  std::string target_pattern;
  std::string axes;         ///< logical axis per dim: "embed, -"
  std::string value;        ///< change of values, or empty
  std::string rule;         ///< JSON pointer
  std::uint64_t count = 1;  ///< tensors of the loop
};

}  // namespace hfshard
