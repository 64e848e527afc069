#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bytes/store.h"
#include "run/checking/output_manifest.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// What this program has recorded beside a checkpoint that it wrote.
struct Recorded {
  std::shared_ptr<const Model> tree;
  Manifest origin;  ///< of what was made of a model: itself, or what it is a copy of
  std::string origin_path;
  std::string model_files;  ///< directory, empty if there is none
};
/// Nothing of what another program wrote. Throws: as read_manifest.
std::optional<Recorded> recorded_at(const StorePath& place);

/// How a model became the checkpoint that is there. Nothing of what another program wrote. Throws:
/// as read_manifest.
std::optional<MappingOptions> recorded_mapping(const StorePath& place);

/// Of a model that is named by one file, or by its directory.
StorePath model_directory(const StorePath& place);

/// The dialect of scheme "hf" that this program has written a model's files in. Empty of names that
/// are the files' own, of trees, and of what another program wrote. Throws: as read_manifest.
std::string recorded_dialect(const StorePath& place);

}  // namespace hfshard
