#include "service/step.h"

#include <algorithm>

#include "bytes/files.h"
#include "format/formats.h"
#include "run/checking/output_manifest.h"
#include "run/keeping/linked_files.h"
#include "run/keeping/unfinished.h"

namespace hfshard {

std::string step_directory(const std::string& out) {
  const auto is_ours = [](const std::string& directory) {
    return exists(join_path(directory, kManifestName));
  };
  if (is_ours(out)) return out;
  if (exists(out) && is_ours(parent_path(out))) return parent_path(out);
  std::string highest;
  for (const Format* format : all_formats()) {
    const auto found = format->recognise(out);
    if (!found) continue;
    for (const Found::Step& step : found->steps) {  // by number
      if (is_ours(step.directory)) highest = step.directory;
    }
  }
  return highest;
}

StepChoice step_choice(const std::string& place, const std::optional<std::string>& directory) {
  StepChoice out;
  const auto recognised = recognise(place);
  if (!recognised) return out;
  const Found& found = recognised->found;
  for (const Found::Step& step : found.steps) {
    if (step.directory == directory.value_or(found.directory)) {
      out.taken = step.number;
    } else {
      out.others.push_back(step.number);
    }
  }
  if (!out.taken) out.others.clear();
  return out;
}

StepChoice step_choice(const std::string& place, std::optional<std::uint64_t> step) {
  StepChoice out = step_choice(place);
  if (!step || !out.taken || *out.taken == *step) return out;
  std::erase(out.others, *step);
  out.others.push_back(*out.taken);
  std::ranges::sort(out.others);
  out.taken = step;
  return out;
}

std::unique_ptr<Checkpoint> open_remains(
    const std::function<std::unique_ptr<Checkpoint>(bool despite_loss)>& open,
    const std::string& step) {
  try {
    return open(false);
  } catch (const Error& error) {
    const Error said = step.empty() ? error : explained(error, step);
    const bool is_loss = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_found;
    // What is awaited has a hint of its own.
    if (!is_loss || said.hint_text().size() != error.hint_text().size()) throw said;
  }
  return open(true);
}

void refuse_unfinished(const std::string& place, Reporter& reporter) {
  const auto run = find_unfinished(place);
  if (!run) return;
  if (in_staging(place)) throw unfinished_error(*run);
  for (const Format* format : all_formats()) {
    const auto found = format->recognise(place);
    if (!found) continue;
    if (!found->steps.empty() && !std::ranges::any_of(found->steps, &Found::Step::published))
      continue;
    return reporter.note(unfinished_note(*run));
  }
  throw unfinished_error(*run);
}

}  // namespace hfshard
