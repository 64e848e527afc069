#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/dtype.h"
#include "hfshard/hub.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// A model family that is known.
struct FamilySummary {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> schemes;
  std::vector<std::string> dialects;  ///< of scheme "hf", beside "files"
  std::vector<std::string> layers;    ///< "stacked", "separate": those that its example can have
  FamilyProof proof;                  ///< of built-in ones only
};

/// Which family, and which model of it.
struct FamilyChoice {
  std::vector<MappingFile> own;  ///< families before the built-in ones
  std::string family;            ///< empty: that of the only one of `own` that was asked for
  std::string config_text;       ///< config.json verbatim; empty: the family's example
  std::string config_name = "config.json";     ///< in errors
  std::map<std::string, std::string> options;  ///< --with and --option: which parts there are
};

/// The rules of a family, with the shapes that they have for one model.
struct FamilyRules {
  std::string family;
  std::string scheme;
  std::string dialect;  ///< of scheme "hf", unless it is "files"
  bool stacked = true;
  std::string config;  ///< config.json that the shapes are of
  std::vector<ShownRule> rules;
};

/// What checking a mapping says about one source or example.
struct CheckReport {
  struct Dropped {
    std::string tensor;
    std::string why;
    std::string rule;
  };
  struct Problem {
    std::string tensor;
    std::string what;  ///< names the region: the element, its tensor, how often it is used
    std::string rule;
    std::string hint;
  };
  std::string family;  ///< empty if it could not be told
  std::string scheme;
  std::string dialect;  ///< of scheme "hf", unless it is "files"
  std::string layers;
  std::string config;             ///< "example", or the name of one of the family's sizes
  bool shapes_seen = true;        ///< false: names only, the model is not downloaded
  std::vector<std::string> with;  ///< parts that are converted: mtp, vision, audio
  std::uint64_t tensors = 0;      ///< of the source
  std::uint64_t leaves = 0;
  std::vector<std::string> rules;  ///< pointers of those that were used
  std::vector<Dropped> dropped;
  std::vector<std::string> source_notes;  ///< ignored files and why
  std::vector<std::string> notes;
  std::vector<Problem> problems;  ///< empty: accounted
};

/// An example checkpoint that is to be written.
struct ExampleOptions : FamilyChoice {
  std::string out;
  std::uint64_t seed = 0;
  bool sparse = false;        ///< full sizes, no data: takes no disk, reads as zeros
  DType dtype = DType::bf16;  ///< of what is not quantised: bf16, f16 or f32
  std::uint64_t shard_bytes = std::uint64_t{4}
                              << 30;  ///< largest data of a file with several tensors
};

/// What was written.
struct ExampleResult {
  std::uint64_t tensors = 0;
  std::uint64_t files = 0;       ///< safetensors files
  std::uint64_t data_bytes = 0;  ///< of tensors
  std::uint64_t file_bytes = 0;  ///< of safetensors files
};

/// Every scheme that there is, MaxText's first and "hf" last.
std::vector<SchemeSummary> list_schemes();
/// The dialects of scheme "hf": "files" first.
std::vector<SchemeSummary> list_dialects();

/// Reads a family file of the user's own. Throws: not_found, io, bad_input (it does not load).
MappingFile read_mapping(const std::string& path);
/// Reads those that are asked for, and the `.json` files of a directory, unless it is empty, of
/// which one that is asked for takes the place. Throws: as read_mapping; usage (two of a family).
std::vector<MappingFile> read_mappings(const std::vector<std::string>& asked,
                                       const std::string& directory);

/// Lists every family by name, the user's own among them.
std::vector<FamilySummary> list_mappings(const std::vector<MappingFile>& own = {});

/// Shows the rules of a family for one scheme; where that is empty, for MaxText's or its first one.
/// Of "hf", those of a dialect.
/// Throws: not_found (family, with near names; scheme), usage (no family is named), bad_input (the
/// config is malformed, or of another family), unsupported.
FamilyRules show_mapping(const FamilyChoice& choice, bool stacked, const std::string& scheme = {},
                         const std::string& dialect = MappingOptions().dialect);

/// Compiles and proves the mapping of a source; of one that is not downloaded its names alone are
/// looked at. What is wrong with a tensor or a rule is a problem of the report. Throws: usage,
/// unsupported (no family, no such layout or scheme), not_found, corrupt, io.
CheckReport check_mapping(const SourceName& source, const MappingOptions& options);

/// The same for the example and each of the sizes of every family, or only of those of `own` that
/// were asked for: in every layout that they have, with and without the parts that `--with` asks
/// for; tensors are made up from the rules. Every error but internal is a problem.
std::vector<CheckReport> check_mappings(const std::vector<MappingFile>& own, bool all);

/// Writes a checkpoint as HuggingFace stores it: config.json, safetensors files (with an index when
/// there are several), tokenizer and generation config. Tensors lie in natural order (layer 2
/// before layer 10); bytes depend on seed, name, shape and dtype only. Memory: names, and one
/// buffer. Throws: conflict (OUT exists and is not an empty directory), limit (disk), usage (the
/// dtype, no family), bad_input, not_found, io.
ExampleResult write_example(const ExampleOptions& options, Reporter& reporter);

}  // namespace hfshard
