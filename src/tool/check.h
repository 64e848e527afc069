#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/family_info.h"

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
  std::string config;             ///< "example", or the name of one of the family's sizes
  bool shapes_seen = true;        ///< false: names only, the model is not downloaded
  std::vector<std::string> with;  ///< parts that are converted: mtp, vision, audio
  std::uint64_t tensors = 0;      ///< of the source
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

/// The same with names only. --include, --exclude and --scheme hf have nothing to say there.
CheckReport check_mapping(const NameList& list, const MappingOptions& options);

/// The same for a family's example and each of its sizes, in every layout that they have, with and
/// without the parts that `--with` asks for; tensors are made up from the rules. `own`: the user's
/// families, of which this may be one. Every error is a problem.
std::vector<CheckReport> check_family(const FamilyFile& file, const FamilyInfo& info,
                                      const std::vector<MappingFile>& own);

}  // namespace hfshard
