#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/checkpoint.h"
#include "run/commit/linked_files.h"

namespace hfshard {

/// Returns the linked files of a step that aren't what was linked, by size, time and header.
/// Throws: as linked_files.
std::vector<LinkedFile> changed_links(const std::string& step);

/// Checks the linked files of a checkpoint that is read. Their headers must be those that were
/// linked, so that the index finds each tensor. Returns a warning about files with another time, or
/// an empty text. Throws: corrupt (another header), as open_source.
std::string check_linked(const StorePath& place);

/// Opens a checkpoint that may be linked. The hint of an error then says how to get the files that
/// it awaits. Throws: as `open`.
std::unique_ptr<Checkpoint> open_linked(const StorePath& place,
                                        const std::function<std::unique_ptr<Checkpoint>()>& open);

}  // namespace hfshard
