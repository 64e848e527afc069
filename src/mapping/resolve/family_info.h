#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/tables/family.h"
#include "mapping/tables/table.h"

#include "hfshard/dtype.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// The description of a family file.
struct FamilyInfo {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> schemes;
  std::vector<std::string> dialects;  ///< of scheme "hf"
  std::vector<std::string> options;   ///< names of option.* that its rules use
  bool stacked = true;                ///< the example allows it
  bool separate = true;
  FamilyProof proof;
  Json example;                                    ///< config.json of the tiny example
  std::map<std::string, Json, std::less<>> sizes;  ///< name -> config.json facts of a real model
};
/// Returns the row of a built-in family or of the user's own. Only `built_in` families have a
/// proof.
FamilyInfo info_of_family(const FamilyFile& file, bool built_in);

/// One tensor of a checkpoint of this family with this config.
struct ExpectedTensor {
  std::string name;
  Shape shape;                 ///< as stored
  std::optional<DType> dtype;  ///< of codes and scales; absent: the model's
  bool scale = false;
};
/// Returns every source tensor that the rules of a scheme name for this config and these options,
/// sorted by name. `mappings example` writes them. Leaves out drops with `same_as`. An empty scheme
/// means the main one. With a `quantization_config` the weights of its layers are coded. Throws:
/// usage (unknown option), bad_input (config key missing), unsupported (a requirement of the
/// family).
std::vector<ExpectedTensor> expected_tensors(const FamilyFile& family, const Json& config,
                                             const std::map<std::string, std::string>& options = {},
                                             std::string_view scheme = {});

/// Returns whether the layers of this config can be stacked (or separate). An empty scheme means
/// the main one.
bool family_has_layout(const FamilyFile& family, const Json& config,
                       const std::map<std::string, std::string>& options, bool stacked,
                       std::string_view scheme = {});

/// The rules of one scheme.
struct ShownFamily {
  std::string scheme;
  std::string dialect;  ///< empty if the scheme has rules
  bool stacked = true;  ///< false if it doesn't stack layers
  std::vector<ShownRule> rules;
};
/// Returns the rules of a scheme, or of a dialect of scheme "hf".
ShownFamily show_family(const FamilyFile& family, const Json& config, bool stacked,
                        const std::map<std::string, std::string>& options = {},
                        std::string_view scheme = {});

/// Returns the problems of a family's example. A config hides shape-preserving mistakes if two dims
/// are equal, one is the product of others, or one is below 2. Dims that follow from others are
/// exempt. Empty if it has no problems.
std::vector<std::string> lint_table(const MappingTable& table);

}  // namespace hfshard
