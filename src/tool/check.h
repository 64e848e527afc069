#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mapping/family_info.h"

#include "hfshard/catalog.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// What `mappings check` says about one source or example.
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
  std::string layers;
  std::uint64_t tensors = 0;  ///< of the source
  std::uint64_t leaves = 0;
  std::vector<std::string> rules;  ///< pointers of those that were used
  std::vector<Dropped> dropped;
  std::vector<std::string> notes;
  std::vector<Problem> problems;  ///< empty: accounted
};

/// Compiles and proves a mapping. What is wrong with a tensor or a rule is a problem of the report.
/// Throws: usage, unsupported (no family, no such layout or scheme), not_found (no config.json),
/// ...
CheckReport check_mapping(const Catalog& catalog, const MappingOptions& options);

/// The same for a family's example, with tensors made up from its rules; every error is a problem.
CheckReport check_example(const FamilyInfo& info, bool stacked);

}  // namespace hfshard
