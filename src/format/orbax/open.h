#pragma once

#include <memory>
#include <optional>
#include <string>

#include "catalog/format.h"

namespace hfshard::format::orbax {

/// Which checkpoint is meant by a place whose entries are those of a manager root, a step directory
/// or an item directory; nothing for other places. What it finds may still be unfinished, damaged
/// or of a kind that is not read. Throws: io.
std::optional<Found> find_checkpoint(const std::string& path);

/// Where a checkpoint is.
struct Location {
  std::string item;  ///< the item directory
  std::string step;  ///< the step directory; empty when the item was given and its parent is none
};

/// Finds the item directory below a manager root (the highest step), a step directory or an item
/// directory. Throws: not_found, corrupt (unfinished), unsupported (no OCDBT), io.
Location locate(const std::string& path);

/// Opens it; reads metadata only. Throws: as Format::open.
std::unique_ptr<Checkpoint> open_orbax(const std::string& path);

}  // namespace hfshard::format::orbax
