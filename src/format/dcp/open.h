#pragma once

#include <memory>
#include <optional>

#include "catalog/format.h"

namespace hfshard::format::dcp {

/// Whether a place has a checkpoint, or directories of steps with one each, and which is meant.
std::optional<Found> find_checkpoint(const StorePath& path);

/// Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_dcp(const StorePath& path, const Choice& choice);

}  // namespace hfshard::format::dcp
