#pragma once

#include <memory>
#include <string>

#include "run/target.h"

namespace hfshard::target::orbax {

/// Where a checkpoint is.
struct Location {
  std::string item;  ///< the item directory
  std::string step;  ///< the step directory; empty when the item was given and its parent is none
};

/// Finds the item directory below a manager root (the highest step), a step directory or an item
/// directory. Throws: not_found, corrupt (unfinished), unsupported (no OCDBT), io.
Location locate(const std::string& path);

/// Opens it; reads metadata only. Throws: as Target::open.
std::unique_ptr<OpenedCheckpoint> open_checkpoint(const std::string& path);

}  // namespace hfshard::target::orbax
