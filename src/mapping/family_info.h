#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/family.h"
#include "mapping/table.h"

#include "hfshard/dtype.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// What a family file says of itself.
struct FamilyInfo {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> schemes;
  std::vector<std::string> dialects;  ///< of scheme "hf", beside its files' names
  std::vector<std::string> options;   ///< names of option.* that its rules use
  bool stacked = true;                ///< the example can be
  bool separate = true;
  FamilyProof proof;
  Json example;                                    ///< config.json of the tiny example
  std::map<std::string, Json, std::less<>> sizes;  ///< name -> config.json facts of a real model
};
/// The row of a built-in family or of the user's own; only `built_in` ones have a proof.
FamilyInfo info_of_family(const FamilyFile& file, bool built_in);

/// One tensor that a checkpoint of this family with this config has.
struct ExpectedTensor {
  std::string name;
  Shape shape;                 ///< as stored
  std::optional<DType> dtype;  ///< of codes and their scales; absent: the model's own
  bool scale = false;
};
/// Every source tensor that the rules of a scheme (empty: the main one) name for this config and
/// these options (drops with `same_as` left out), sorted by name: what `mappings example` writes.
/// With a `quantization_config` the weights of its layers are coded. Throws: usage (no such
/// option), bad_input (config key missing), unsupported (a requirement of the family).
std::vector<ExpectedTensor> expected_tensors(const FamilyFile& family, const Json& config,
                                             const std::map<std::string, std::string>& options = {},
                                             std::string_view scheme = {});

/// Whether this config of the family can have its layers stacked (or separate). Of the scheme of
/// this name; empty: the main one.
bool family_has_layout(const FamilyFile& family, const Json& config,
                       const std::map<std::string, std::string>& options, bool stacked,
                       std::string_view scheme = {});

/// The rules of one scheme.
struct ShownFamily {
  std::string scheme;
  std::string dialect;  ///< empty where the scheme has rules of its own
  bool stacked = true;  ///< false too where it stacks no layers
  std::vector<ShownRule> rules;
};
/// `scheme`: its name, or that of a dialect of scheme "hf".
ShownFamily show_family(const FamilyFile& family, const Json& config, bool stacked,
                        const std::map<std::string, std::string>& options = {},
                        std::string_view scheme = {});

/// What is wrong with a family's example: a config in which two dims are equal, or one is the
/// product of others, or is below 2, hides shape-preserving mistakes. Dims that follow from others
/// are excepted. Empty if all is well.
std::vector<std::string> lint_table(const MappingTable& table);

}  // namespace hfshard
