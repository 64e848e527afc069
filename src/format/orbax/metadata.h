#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/format.h"
#include "format/orbax/ocdbt/writer.h"

namespace hfshard::format::orbax {

inline constexpr std::string_view kItemDirectory = "items";
inline constexpr std::string_view kManifestFile = "manifest.ocdbt";
inline constexpr std::string_view kTreeFile = "_METADATA";
/// Small leaves in msgpack, in checkpoints older than kTreeFile. hfshard doesn't read them.
inline constexpr std::string_view kLegacyFile = "checkpoint";
inline constexpr std::string_view kStepFile = "_CHECKPOINT_METADATA";
inline constexpr std::string_view kCommitFile = "commit_success.txt";
/// Prefix of data files. Their names are relative to the item directory, like those of nodes.
inline constexpr std::string_view kDataPrefix = "d/";
inline constexpr std::string_view kNodeFile = "d/btree";
inline constexpr std::string_view kArrayFile = "zarr.json";
inline constexpr std::string_view kArrayFileV2 = ".zarray";

/// Returns the side files in commit order (FORMAT.md 1). `tree`'s leaves and grids and `placed`
/// must outlive the result. Each file can be written any number of times, in any order. Throws:
/// bad_input (a leaf named like one of the tree's extras), unsupported (a dtype that zarr lacks).
std::vector<SideFile> side_files(const TreeSpec& tree, const Placements& placed,
                                 ocdbt::TreeLimits limits = {});

/// Returns whether the uuid of an item's database is that of this plan. Throws: io.
bool is_manifest_of(const StorePath& item, const std::string& plan_id);

/// Streams `_METADATA`.
void write_tree_metadata(const TreeSpec& tree, const ByteSink& sink);
/// Returns Python's str() of a tuple of strings: `('params', 'a')`, `('a',)`.
std::string tuple_text(const std::vector<std::string>& keys);

}  // namespace hfshard::format::orbax
