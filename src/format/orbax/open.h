#pragma once

#include <memory>
#include <optional>
#include <string>

#include "catalog/format.h"

namespace hfshard::format::orbax {

/// Finds the checkpoint at a place that looks like a manager root, a step directory or an item
/// directory. Empty for other places. The checkpoint can be unfinished, damaged or unsupported.
/// Throws: io.
std::optional<Found> find_checkpoint(const StorePath& path);

/// The place of a checkpoint.
struct Location {
  StorePath item;  ///< the item directory
  /// The step directory. Empty if the item was given and its parent isn't a step.
  std::optional<StorePath> step;
};

/// Finds the item directory below a manager root (the highest step), a step directory or an item
/// directory. Throws: not_found (also a chosen item or step), corrupt (unfinished), bad_input (a
/// step with several items), usage (a step, in a place without steps), io.
Location locate(const StorePath& path, const Choice& choice = {});

/// Returns the name of the item of a step that Orbax has begun to delete, if any. Throws: corrupt
/// (a record without a name), io.
std::optional<std::string> being_deleted(const StorePath& step);

/// Says why a step can't be read, based on file names: Format::why_incomplete. Throws: io.
std::string why_incomplete(const StorePath& step);

/// Lists the contents of a checkpoint's step directory except its item. Throws: as locate;
/// unsupported (another item has the name of the one that hfshard writes).
Beside find_beside(const StorePath& path, const Choice& choice);

/// Lists the files with a CheckpointManager's `metadata=` of the run, relative to the directory of
/// its steps. Empty if there are no such metadata. Source: google/orbax
/// checkpoint/orbax/checkpoint/ checkpoint_manager.py (METADATA_ITEM_NAME),
/// _src/metadata/checkpoint.py (0.12.8).
std::vector<std::string> find_root_files(const StorePath& root);

/// Returns whether a directory is itself a tree of arrays.
bool is_item_place(const StorePath& path);

/// Returns whether a directory is a step with named trees.
bool is_step_with_items(const StorePath& path);

/// Returns the names of the step's other items, sorted. Empty if `path` is an item itself. Throws:
/// as locate.
std::vector<std::string> find_other_items(const StorePath& path, const Choice& choice);

/// Opens a checkpoint. Reads metadata only. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_orbax(const StorePath& path, const Choice& choice);

}  // namespace hfshard::format::orbax
