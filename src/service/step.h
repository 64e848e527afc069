#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/checkpoint.h"

#include "hfshard/convert.h"

namespace hfshard {

/// The step directory with hfshard.json that `out` means: itself, its parent (of an item directory)
/// or its highest step that has one. Empty if there is none. Throws: io.
std::string step_directory(const std::string& out);

/// Which of the steps below a place was taken.
struct StepChoice {
  std::optional<std::uint64_t> taken;  ///< absent if the place is no root with steps
  std::vector<std::uint64_t> others;   ///< ascending
};
/// That `directory` was taken; without one, what opening the place takes. Throws: io.
StepChoice step_choice(const std::string& place,
                       const std::optional<std::string>& directory = std::nullopt);
/// That the step of that number was taken.
StepChoice step_choice(const std::string& place, std::optional<std::uint64_t> step);

/// Opens a checkpoint although data files of it are lost (Choice::despite_loss), unless they are
/// only awaited. `open` is called with what is to be opened of it, `step` is a step directory with
/// hfshard.json, or empty. Throws: as `open`.
std::unique_ptr<Checkpoint> open_remains(
    const std::function<std::unique_ptr<Checkpoint>(bool despite_loss)>& open,
    const std::string& step);

/// Refuses a place where a run has begun an output and nothing stands yet; of one beside a
/// checkpoint, or of a further step, it tells. Throws: not_found (with how to go on), io.
void refuse_unfinished(const std::string& place, Reporter& reporter);

}  // namespace hfshard
