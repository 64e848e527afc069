#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bytes/store/store.h"
#include "run/check/output_manifest.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// hfshard's record next to a checkpoint that it wrote.
struct Recorded {
  std::shared_ptr<const Model> tree;
  Manifest origin;  ///< the origin model's, or its copy's
  std::string origin_path;
  std::string model_files;    ///< directory; empty if missing
  std::string config_sha256;  ///< of the config.json there, as recorded; empty if it isn't recorded
};
/// Reads the record; empty for another program's checkpoint. Throws: as read_manifest.
std::optional<Recorded> recorded_at(const StorePath& place);

/// Returns the same for the tree below a key of it. Empty if `root` is a key, since the record
/// speaks of the whole tree.
std::optional<Recorded> recorded_below(const StorePath& place, const std::string& root);

/// Returns the text of the config.json beside a recorded checkpoint. Throws: conflict (it is not
/// the recorded one).
std::string recorded_config(const Recorded& recorded);

/// Returns how a model became the recorded checkpoint.
MappingOptions mapping_of(const Recorded& recorded);

/// Returns how a model became the checkpoint at a place; empty for another program's. Throws: as
/// read_manifest.
std::optional<MappingOptions> recorded_mapping(const StorePath& place);

/// Accepts a model's directory or one of its files.
StorePath model_directory(const StorePath& place);

/// Returns the dialect of scheme "hf" in which hfshard wrote a model's files. Empty for the files'
/// own names, for trees, and for another program's files. Throws: as read_manifest.
std::string recorded_dialect(const StorePath& place);

}  // namespace hfshard
