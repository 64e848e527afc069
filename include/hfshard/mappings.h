#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/dtype.h"
#include "hfshard/hub.h"
#include "hfshard/mapping.h"
#include "hfshard/plan.h"

namespace hfshard {

/// A known model family.
struct FamilySummary {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> schemes;
  std::vector<std::string> dialects;  ///< for scheme "hf", except "files"
  std::vector<std::string> layers;    ///< "stacked", "separate"
  FamilyProof proof;                  ///< for built-in families
};

/// Selects a family and a model of it.
struct FamilyChoice {
  std::vector<MappingFile> own;                ///< tried before the built-in families
  std::string family;                          ///< if empty, the one that `own` asks for
  std::string config_text;                     ///< config.json, or empty for the example
  std::string config_name = "config.json";     ///< for errors
  std::map<std::string, std::string> options;  ///< --with and --option
};

/// The rules of a family, with their shapes for one model.
struct FamilyRules {
  std::string family;
  std::string scheme;
  std::string dialect;  ///< for scheme "hf", except "files"
  bool stacked = true;
  std::string config;  ///< config.json of the model
  std::vector<ShownRule> rules;
};

/// The result of checking the mapping of one source or example.
struct CheckReport {
  struct Dropped {
    std::string tensor;
    std::string why;
    std::string rule;
  };
  struct Problem {
    std::string tensor;
    std::string what;  ///< with the element, if there is one
    std::string rule;
    std::string hint;
  };
  std::string family;  ///< empty if unknown
  std::string scheme;
  std::string dialect;  ///< for scheme "hf", except "files"
  std::string layers;
  std::string config;                      ///< "example", or a size of the family
  bool shapes_seen = true;                 ///< false if only names are known
  std::vector<std::string> with;           ///< optional parts: mtp, vision, audio
  std::optional<std::uint64_t> step;       ///< the one that was read, if any
  std::vector<std::uint64_t> other_steps;  ///< ascending
  std::uint64_t tensors = 0;               ///< of the source
  std::uint64_t leaves = 0;
  std::vector<std::string> rules;  ///< JSON pointers of the used rules
  std::vector<Dropped> dropped;
  std::vector<std::string> source_notes;  ///< ignored files and why
  std::vector<std::string> notes;
  std::vector<Problem> problems;  ///< empty if everything is accounted for
};

/// Options of `mappings example`.
struct ExampleOptions : FamilyChoice {
  std::string out;
  std::uint64_t seed = 0;
  bool sparse = false;        ///< full sizes, zeros, no disk space
  DType dtype = DType::bf16;  ///< bf16, f16 or f32, unless quantized
  /// Most bytes in a file with several tensors.
  std::uint64_t shard_bytes = std::uint64_t{4} << 30;
};

/// The result of `mappings example`.
struct ExampleResult {
  std::uint64_t tensors = 0;
  std::uint64_t files = 0;       ///< safetensors files
  std::uint64_t data_bytes = 0;  ///< of tensors
  std::uint64_t file_bytes = 0;  ///< of safetensors files
};

/// Lists all schemes, MaxText's first and "hf" last.
std::vector<SchemeSummary> list_schemes();
/// Lists the supported releases of a scheme's loader. The newest comes first and is the default.
/// Empty if there is no choice. MappingOptions::options selects one under the scheme's name.
std::vector<std::string> list_releases(const std::string& scheme);
/// Finds one of these by its name or its commit. Throws: usage.
std::string find_release(const std::string& scheme, const std::string& asked);
/// Lists the dialects of scheme "hf", "files" first.
std::vector<SchemeSummary> list_dialects();

/// Reads a family file of the user. Throws: not_found, io, bad_input (the file has an error).
MappingFile read_mapping(const std::string& path);
/// Reads the `asked` files, and the families among the `.json` files of a directory, unless its
/// name is empty. An asked family replaces one in the directory. Throws: as read_mapping; usage
/// (two files for one family).
std::vector<MappingFile> read_mappings(const std::vector<std::string>& asked,
                                       const std::string& directory);

/// Lists all families by name, with the user's own.
std::vector<FamilySummary> list_mappings(const std::vector<MappingFile>& own = {});

/// Returns the rules of a family for one scheme. If `scheme` is empty, it is MaxText's or the
/// family's first one. For "hf", returns the rules of the dialect. Throws: not_found (family, with
/// near names; scheme), usage (no family), bad_input (the config is malformed, or of another
/// family), unsupported.
FamilyRules show_mapping(const FamilyChoice& choice, bool stacked, const std::string& scheme = {},
                         const std::string& dialect = MappingOptions().dialect);

/// Compiles and proves the mapping of a source. Checks only the names of a model that isn't
/// downloaded. Reports errors of tensors and rules as problems. Throws: usage, unsupported (no
/// family, no such layout or scheme), not_found, corrupt, io.
CheckReport check_mapping(const SourceName& source, const MappingOptions& options,
                          const TreeOptions& tree = {});

/// Checks the example and all sizes of every family, or of the asked families in `own`. Tries every
/// layout, with and without the optional parts (`--with`). The rules define the tensors. Reports
/// all errors but internal ones as problems.
std::vector<CheckReport> check_mappings(const std::vector<MappingFile>& own, bool all);

/// Writes a checkpoint in the layout of Hugging Face: config.json, safetensors files, an index if
/// there are several, tokenizer and generation config. Tensors are in natural order: layer 2 before
/// layer 10. Their bytes depend on seed, name, shape and dtype only. Memory: names, and one buffer.
/// Throws: conflict (OUT exists and isn't an empty directory), limit (disk), usage (the dtype, no
/// family), bad_input, not_found, io.
ExampleResult write_example(const ExampleOptions& options, Reporter& reporter);

}  // namespace hfshard
