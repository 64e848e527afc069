#pragma once

#include <vector>

#include "bytes/store.h"
#include "catalog/catalog.h"
#include "mapping/family_info.h"

#include "hfshard/mappings.h"

namespace hfshard {

/// Compiles and proves a mapping, of the tensors of a model at `place` as compile_source does.
/// Throws: as check_mapping of a source.
CheckReport check_mapping(const Catalog& catalog, const StorePath& place,
                          const MappingOptions& options);

/// The same with names only. --include, --exclude and --scheme hf have nothing to say there.
CheckReport check_mapping(const NameList& list, const MappingOptions& options);

/// The checks of a family, at its example and each of its sizes.
std::vector<CheckReport> check_family(const FamilyInfo& info);
/// The same for the family of a file, beside the user's own ones.
std::vector<CheckReport> check_family(const FamilyFile& file, const FamilyInfo& info,
                                      const std::vector<MappingFile>& own);

}  // namespace hfshard
