#pragma once

#include <memory>

#include "base/json.h"
#include "catalog/catalog.h"
#include "catalog/format.h"
#include "format/orbax/open.h"
#include "format/orbax/tree.h"

namespace hfshard::format::orbax {

inline constexpr std::string_view kShardingFile = "_sharding";
inline constexpr std::string_view kTextsFile = "_strings.json";
inline constexpr std::string_view kArrayMetadataDirectory = "array_metadatas";

/// Reads everything in a tree except its arrays: from `tree`, whose entries it moves, and from the
/// small files next to `_METADATA`. `step` is the metadata of its step, or null. `notes` gets a
/// line for each file that can't be parsed. add_shardings adds the shardings. Throws: io.
std::shared_ptr<TreeStructure> read_structure(const Location& at, Tree& tree, Json step,
                                              std::vector<std::string>& notes);
/// Adds the shardings from the JSON that read_shardings returns. It skips malformed entries, which
/// read_shardings has noted.
void add_shardings(const Json& json, TreeStructure& structure);

/// Calls `put` with each tree entry of `_METADATA`, as one member of a JSON object, in the order of
/// the structure. Skips arrays that aren't leaves of the output.
void put_entries(const TreeSpec& tree, const std::function<void(const std::string&)>& put);

/// Returns `_CHECKPOINT_METADATA` for the step of this tree: the source's, without the handlers of
/// other items. `handler` names the tree's handler if the source doesn't.
Json step_of_structure(const TreeSpec& tree, std::string_view handler);

/// Returns the small files next to `_METADATA`: shardings of JAX arrays, strings, generators of
/// PRNG keys. `item` is the directory of the tree, with its slash. `tree`'s pointers must outlive
/// them. Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/sharding.py,
/// array_metadata_store.py, serialization/type_handlers.py (StringHandler).
std::vector<SideFile> structure_files(const TreeSpec& tree, const std::string& item);

}  // namespace hfshard::format::orbax
