#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

namespace hfshard::format {

/// The CRC-32 of each array's bytes, by number, if the files have one.
using ArrayCrcs = std::vector<std::optional<std::uint32_t>>;

/// Returns a checkpoint whose arrays are one plain piece each (TensorInfo::is_whole). A piece that
/// is read to its end without a skip must match its CRC. `crcs`: empty for files without.
std::unique_ptr<Checkpoint> plain_checkpoint(Catalog catalog, ArrayCrcs crcs = {});

}  // namespace hfshard::format
