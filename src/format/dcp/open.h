#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "catalog/format.h"

namespace hfshard::format::dcp {

/// Prefix of a run's checkpoints: "step-500". Source: pytorch/torchtitan
/// torchtitan/components/checkpoint.py.
inline constexpr std::string_view kStepPrefix = "step-";

/// Finds the checkpoint at a place, which can also have directories with one step each.
std::optional<Found> find_checkpoint(const StorePath& path);

/// Says why a step can't be read: Format::why_incomplete. Throws: io.
std::string why_incomplete(const StorePath& step);

/// Opens a checkpoint. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_dcp(const StorePath& path, const Choice& choice);

}  // namespace hfshard::format::dcp
