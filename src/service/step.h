#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/checkpoint.h"
#include "catalog/format.h"

#include "hfshard/convert.h"
#include "hfshard/plan.h"

namespace hfshard {

/// Returns the step directory with hfshard.json that `out` means: itself, its parent (for an item
/// directory) or its highest step with a record. Empty if there isn't one. Throws: io.
std::string step_directory(const std::string& out);
/// Returns that of a place. Empty for a far one.
std::string step_of(const StorePath& place);

/// The step that was selected below a place.
struct StepChoice {
  std::optional<std::uint64_t> taken;  ///< absent if the place has no steps
  std::vector<std::uint64_t> others;   ///< ascending
};
/// Notes that the step in `directory` was selected. Throws: io.
StepChoice step_choice(const std::string& place, const std::string& directory);

/// The step to read, for a place with steps or a step itself.
struct ReadStep : StepChoice {
  StorePath place;  ///< the step's directory, or the place itself
};
/// Finds the step with that number, or the highest. A step's own directory accepts only its own
/// number. `hint`: advice for a number where there are no steps. Throws: usage (such a number),
/// not_found (a missing or incomplete step, with the highest complete one), io.
ReadStep read_step(const StorePath& place, std::optional<std::uint64_t> asked,
                   const std::string& hint = "leave out --step");
/// Refuses a source that is the output of an unfinished run, or its staging directory. Throws:
/// not_found (with how to continue), io.
void refuse_unfinished_source(const StorePath& place);
/// Does both for the source of an output.
ReadStep read_source_step(const StorePath& place, const TreeOptions& asked);
/// Returns the step that a place is, or is part of, with only the name as directory. Returns
/// nothing for other places. Throws: io.
std::optional<Found::Step> own_step(const StorePath& place);
/// Returns whether a place has steps below it. Throws: io.
bool has_steps(const StorePath& place);
/// Refuses a step number for a place without steps. Throws: usage.
void refuse_step(const StorePath& place, std::optional<std::uint64_t> asked,
                 const std::string& hint);

/// Opens a checkpoint even if data files are lost (Choice::despite_loss), unless they are only
/// awaited. Calls `open` with the choice; `step` is a step directory with hfshard.json, or empty.
/// Throws: as `open`.
std::unique_ptr<Checkpoint> open_remains(
    const std::function<std::unique_ptr<Checkpoint>(bool despite_loss)>& open,
    const std::string& step);

/// Refuses a place where a run has begun an output and nothing is complete; notes an unfinished run
/// next to a checkpoint. Throws: not_found (with how to continue), io.
void refuse_unfinished(const std::string& place, Reporter& reporter);

}  // namespace hfshard
