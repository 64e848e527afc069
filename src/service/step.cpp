#include "service/step.h"

#include <algorithm>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "run/check/output_manifest.h"
#include "run/commit/linked_files.h"
#include "run/commit/unfinished.h"

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
    for (const Found::Step& step : found->steps) {  // sorted by number
      if (is_ours(step.directory)) highest = step.directory;
    }
  }
  return highest;
}

std::string step_of(const StorePath& place) {
  return place.is_far() ? std::string() : step_directory(place.name());
}

StepChoice step_choice(const std::string& place, const std::string& directory) {
  StepChoice out;
  const auto recognised = recognise(place);
  if (!recognised) return out;
  for (const Found::Step& step : recognised->found.steps) {
    if (step.directory == directory) {
      out.taken = step.number;
    } else {
      out.others.push_back(step.number);
    }
  }
  if (!out.taken) out.others.clear();
  return out;
}

namespace {

// Returns the error for a step that can't be read. It names one that can.
Error incomplete_step(const Recognised& root, const StorePath& place, const Found::Step& step,
                      const std::string& why) {
  const std::vector<Found::Step>& steps = root.found.steps;
  const bool highest = step == steps.back();
  Error out(ErrorCode::not_found,
            fmt::format("step {}{} {}", step.number, highest ? ", the highest," : "", why));
  out.in_file(place.at(step.directory).text());
  const auto whole = std::find_if(steps.rbegin(), steps.rend(), [&](const Found::Step& other) {
    return root.format->why_incomplete(place.at(other.directory)).empty();
  });
  if (whole != steps.rend())
    out.hint(fmt::format("pass --step {} to read the highest complete step", whole->number));
  return out;
}

}  // namespace

std::optional<Found::Step> own_step(const StorePath& place) {
  for (StorePath at = place; !at.name().empty() && at.parent() != at; at = at.parent()) {
    const auto around = recognise(at.parent());
    if (!around) return std::nullopt;
    for (const Found::Step& step : around->found.steps) {
      const std::string name(entry_name(step.directory));
      if (name == entry_name(at.name())) return Found::Step{step.number, name, step.published};
    }
    if (!around->found.steps.empty()) return std::nullopt;
  }
  return std::nullopt;
}

void refuse_step(const StorePath& place, std::optional<std::uint64_t> asked,
                 const std::string& hint) {
  if (!asked) return;
  throw Error(
      ErrorCode::usage,
      fmt::format("--step {} selects a step of the source, and the source has no steps", *asked))
      .in_file(place.text())
      .hint(hint);
}

bool has_steps(const StorePath& place) {
  const auto recognised = recognise(place);
  return recognised && !recognised->found.steps.empty();
}

ReadStep read_step(const StorePath& place, std::optional<std::uint64_t> asked,
                   const std::string& hint) {
  ReadStep out;
  out.place = place;
  const auto root = recognise(place);
  if (!root || root->found.steps.empty()) {
    const auto own = asked ? own_step(place) : std::nullopt;
    if (own && own->number != *asked) {
      throw Error(ErrorCode::usage,
                  fmt::format("--step {} was asked for, but this is step {}", *asked, own->number))
          .in_file(place.text())
          .hint(hint);
    }
    if (own) out.taken = own->number;
    if (!own) refuse_step(place, asked, hint);
    return out;
  }
  const std::vector<Found::Step>& steps = root->found.steps;
  const Found::Step& step = asked ? step_numbered(steps, *asked, place) : steps.back();
  const StorePath directory = place.at(step.directory);
  if (const std::string why = root->format->why_incomplete(directory); !why.empty())
    throw incomplete_step(*root, place, step, why);
  for (const Found::Step& other : steps) {
    if (other.number != step.number) out.others.push_back(other.number);
  }
  out.taken = step.number;
  out.place = directory;
  return out;
}

void refuse_unfinished_source(const StorePath& place) {
  const std::string name = place.text();
  const bool may_be_unfinished = !place.is_far() && tilde_hint(name).empty();
  if (!may_be_unfinished || (!is_staging(name) && place.exists())) return;
  if (const auto run = find_unfinished(name)) throw unfinished_error(*run);
}

ReadStep read_source_step(const StorePath& place, const TreeOptions& asked) {
  refuse_unfinished_source(place);
  return read_step(
      place, asked.step,
      fmt::format("pass --output-step {} for the step to write", asked.step.value_or(0)));
}

std::unique_ptr<Checkpoint> open_remains(
    const std::function<std::unique_ptr<Checkpoint>(bool despite_loss)>& open,
    const std::string& step) {
  try {
    return open(false);
  } catch (const Error& error) {
    const Error said = step.empty() ? error : explained(error, step);
    const bool is_loss = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_found;
    // Errors for awaited files have their own hint.
    if (!is_loss || said.hint_text() != error.hint_text()) throw said;
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
