#pragma once

#include <memory>
#include <optional>
#include <string>

#include "catalog/format.h"

namespace hfshard::format::orbax {

/// Which checkpoint is meant by a place whose entries are those of a manager root, a step directory
/// or an item directory; nothing for other places. What it finds may still be unfinished, damaged
/// or of a kind that is not read. Throws: io.
std::optional<Found> find_checkpoint(const StorePath& path);

/// Where a checkpoint is.
struct Location {
  StorePath item;  ///< the item directory
  std::optional<StorePath>
      step;  ///< the step directory; none when the item was given and its parent is none
};

/// Finds the item directory below a manager root (the highest step), a step directory or an item
/// directory. Throws: not_found (also what was chosen), corrupt (unfinished), bad_input (a step
/// with several items), usage (a step, in a place that has none), io.
Location locate(const StorePath& path, const Choice& choice = {});

/// What the step directory of a checkpoint holds beside its item. Throws: as locate; unsupported
/// (another item that has the name of the one that we write).
Beside find_beside(const StorePath& path, const Choice& choice);

/// Opens it; reads metadata only. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_orbax(const StorePath& path, const Choice& choice);

}  // namespace hfshard::format::orbax
