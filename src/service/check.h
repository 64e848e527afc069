#pragma once

#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "mapping/resolve/family_info.h"

#include "hfshard/mappings.h"

namespace hfshard {

/// Compiles and proves a mapping for the tensors of a model at `place`, as compile_source does.
/// Throws: as check_mapping of a source.
CheckReport check_mapping(const Catalog& catalog, const StorePath& place,
                          const MappingOptions& options);

/// Checks the mapping of a tree of arrays back to its model, or to another scheme. Throws: as
/// open_source_model.
CheckReport check_tree(const StorePath& place, const PlanOptions& options);

/// Checks names only. --include, --exclude and --scheme hf have no effect here.
CheckReport check_mapping(const NameList& list, const MappingOptions& options);

/// Checks a family with its example and each of its sizes.
std::vector<CheckReport> check_family(const FamilyInfo& info);
/// Checks the family of a file next to the user's other families.
std::vector<CheckReport> check_family(const FamilyFile& file, const FamilyInfo& info,
                                      const std::vector<MappingFile>& own);

}  // namespace hfshard
