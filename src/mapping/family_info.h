#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "mapping/family.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// One row of `mappings list`.
struct FamilyInfo {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> schemes;
  bool stacked = true;
  bool separate = true;
  Json example;  ///< config.json of the tiny example
};
/// All families, sorted by name.
std::vector<FamilyInfo> list_families();

/// One tensor that a checkpoint of this family with this config has.
struct ExpectedTensor {
  std::string name;
  Shape shape;
};
/// Every source tensor that the family's rules name for this config (drops with `same_as` left
/// out), sorted by name: what `mappings example` writes. Throws: not_found (family, near names),
/// bad_input (config key missing).
std::vector<ExpectedTensor> expected_tensors(const std::string& family, const Json& config);

/// One row of `mappings show`.
struct ShownRule {
  std::string source, source_shape, target, target_shape, axes, value, rule, source_pattern,
      target_pattern;
  std::uint64_t count = 1;  ///< how many tensors of the loop it stands for
};
std::vector<ShownRule> show_family(const std::string& family, const Json& config, bool stacked);

/// What is wrong with a family's example: a config in which two dims are equal, or one is the
/// product of others, or is below 2, hides shape-preserving mistakes. Dims that follow from others
/// are excepted. Empty if all is well.
std::vector<std::string> lint_family(const FamilyFile& file);

}  // namespace hfshard
