// Converts several steps of a run, one after the other. It writes nothing before it has planned all
// of them:
//  1. It chooses the steps. Each must be complete.
//  2. It plans each step, and checks whether OUT has the step or can take it.
//  3. It checks that the disk has enough space for all.
//  4. It converts each step as `convert` does. An interrupted step comes first, since its staging
//     directory is in the way of the others.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "run/commit/publish.h"
#include "run/commit/staging.h"
#include "run/commit/unfinished.h"
#include "run/engine/disk_space.h"
#include "run/published.h"
#include "service/convert.h"
#include "service/loadable.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/step.h"
#include "service/summary.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// One chosen step, and its result.
struct Chosen {
  Found::Step step;
  PlanOptions options;
  RunOptions run;
  // The report of the plan. It's the complete report if the output already exists.
  ConvertReport report;
  bool staged = false;           // by an unfinished run
  std::uint64_t done_bytes = 0;  // by that run
};

std::vector<std::uint64_t> numbers_of(const std::vector<Found::Step>& steps) {
  std::vector<std::uint64_t> out;
  out.reserve(steps.size());
  for (const Found::Step& step : steps) out.push_back(step.number);
  return out;
}

std::string numbers_text(const std::vector<Found::Step>& steps) {
  const std::vector<std::uint64_t> numbers = numbers_of(steps);
  return fmt::format("{}", fmt::join(numbers, ","));
}

std::vector<Found::Step> select(const std::vector<Found::Step>& steps, const StepList& wanted,
                                const StorePath& place) {
  if (wanted.all) return steps;
  if (wanted.last > 0) {
    const std::size_t count = std::min<std::uint64_t>(wanted.last, steps.size());
    return {steps.end() - static_cast<std::ptrdiff_t>(count), steps.end()};
  }
  std::vector<Found::Step> out;
  for (const std::uint64_t number : wanted.numbers)
    out.push_back(step_numbered(steps, number, place));
  std::ranges::sort(out, {}, &Found::Step::number);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Throws: not_found (its hint names steps that can be read).
void refuse_incomplete(const Recognised& root, const std::vector<Found::Step>& chosen,
                       const StepList& wanted, const StorePath& place) {
  const auto why_not = [&](const Found::Step& step) {
    return root.format->why_incomplete(place.at(step.directory));
  };
  const auto bad =
      std::ranges::find_if(chosen, [&](const auto& step) { return !why_not(step).empty(); });
  if (bad == chosen.end()) return;
  Error error(ErrorCode::not_found, fmt::format("step {} {}", bad->number, why_not(*bad)));
  error.in_file(place.at(bad->directory).text());
  std::vector<Found::Step> whole = wanted.last > 0 ? root.found.steps : chosen;
  std::erase_if(whole, [&](const Found::Step& step) { return !why_not(step).empty(); });
  whole = select(whole, {.all = wanted.last == 0, .last = wanted.last, .numbers = {}}, place);
  if (whole.empty()) throw Error(error);
  throw error.hint(fmt::format("pass --steps {} to take complete steps", numbers_text(whole)));
}

// Throws: usage (no steps), not_found (no such step, or an incomplete one).
std::vector<Found::Step> choose(const StorePath& place, const StepList& wanted) {
  const auto root = recognise(place);
  if (!root || root->found.steps.empty()) {
    throw Error(ErrorCode::usage,
                "--steps selects steps of the source, and the source has no steps")
        .in_file(place.text())
        .hint("leave out --steps");
  }
  std::vector<Found::Step> chosen = select(root->found.steps, wanted, place);
  refuse_incomplete(*root, chosen, wanted, place);
  return chosen;
}

// Sets where a step is written. OUT is always a root, in every format.
RunOptions run_of(const RunOptions& run, const Format& target, const Found::Step& step) {
  RunOptions out = run;
  out.resume = true;  // output with the same plan is complete
  const FileLayout files = target.layout();
  if (!files.has_steps)
    out.out = join_path(run.out, files.step_prefix + std::to_string(step.number));
  return out;
}

void check_root(const Format& target, const std::string& out) {
  if (target.layout().has_steps || !exists(out)) return;
  const auto found = recognise(out);
  if (!found || !found->found.steps.empty()) return;
  throw Error(ErrorCode::conflict, "the output already is a checkpoint; it can't hold steps")
      .in_file(out)
      .hint("pass another OUT");
}

// Returns whether the staging directory belongs to another plan. hfshard leaves that run alone.
bool is_of_other_plan(const OutPaths& paths, const std::string& plan_id) {
  const std::string record = join_path(paths.staging, kPlanRecordName);
  return exists(record) &&
         parse_json(read_file(record), record).at("plan_id").as_string() != plan_id;
}

// Checks a published step once. Returns whether to write it again, because it lost files and
// --overwrite was given. Throws: see check_published.
bool is_replaced(const Plan& plan, const OutPaths& paths, const RunOptions& run) {
  try {
    check_published(plan, paths, run);
  } catch (const Error& error) {
    if (!run.overwrite || error.code() != ErrorCode::conflict) throw;
    return true;
  }
  return false;
}

// Runs a check whose hints can offer --output-step, which can't be used with --steps.
template <typename Check>
auto hint_without_step(const Check& check) {
  constexpr std::pair<std::string_view, std::string_view> kAway[] = {
      {", --output-step N, or ", " or "}, {" or --output-step", ""}};
  try {
    return check();
  } catch (const Error& error) {
    std::string hint = error.hint_text();
    for (const auto& [away, instead] : kAway) {
      if (const std::size_t at = hint.find(away); at != std::string::npos)
        hint.replace(at, away.size(), instead);
    }
    throw error.rehinted(std::move(hint));
  }
}

Chosen prepare(const StorePath& place, const PlanOptions& options, const RunOptions& run,
               const Found::Step& step) {
  Chosen out;
  out.step = step;
  out.options = options;
  out.options.tree.step = step.number;
  const Format& target = format_of(options.target);
  out.run = run_of(run, target, step);
  const Plan plan = make_plan(place, out.options, target, run);
  refuse_unloadable(plan);
  out.report.plan = summarise(plan);
  const OutPaths paths = out_paths(plan, out.run.out);
  const bool other = is_of_other_plan(paths, plan.id());
  const bool is_there = is_published(plan, target, paths);
  if (is_there && hint_without_step([&] { return is_replaced(plan, paths, run); })) {
    out.run.resume = false;
  } else if (is_there) {
    out.report.run.already_done = other || !exists(paths.staging);
    out.report.run.output_bytes = plan.totals().output_bytes;
    out.report.run.path = plan.item_directory(published_step(plan, paths));
    return out;
  }
  out.staged = exists(paths.staging) && !other;
  const auto begun = out.staged ? find_unfinished(out.run.out) : std::nullopt;
  if (begun) out.done_bytes = std::max(begun->done_bytes, staged_disk_bytes(paths.tree));
  // If a run was interrupted, convert first restores its leftovers, so the check comes later.
  if (!exists(paths.staging)) hint_without_step([&] { check_output(plan, target, out.run); });
  return out;
}

void check_disk(const std::vector<Chosen>& steps, const std::string& out) {
  std::uint64_t needed = 0;
  std::uint64_t held = 0;
  for (const Chosen& each : steps) {
    const std::uint64_t bytes = each.report.plan.output_bytes;
    if (!each.report.run.path.empty() || each.report.plan.compresses) continue;
    const std::uint64_t done = std::min(bytes, each.done_bytes);
    needed += bytes - done;
    held += done;
  }
  std::string at = out;
  while (!exists(at) && parent_path(at) != at) at = parent_path(at);
  const std::uint64_t free = free_bytes(at);
  if (needed <= free) return;
  const std::string lacks = steps.size() == 1
                                ? fmt::format("the step needs {} more, and the disk has {} free",
                                              human_bytes(needed), human_bytes(free))
                                : fmt::format("{} steps need {} more, and the disk has {} free",
                                              steps.size(), human_bytes(needed), human_bytes(free));
  throw Error(ErrorCode::limit, lacks)
      .in_file(at)
      .hint(held == 0 ? "free some space, or pass fewer steps; hfshard has written nothing"
                      : fmt::format("{} are already in staging: free some space and repeat the "
                                    "command, or pass fewer steps",
                                    human_bytes(held)));
}

// Names what the root has besides steps and what a run with all items copies.
void note_others(const Recognised& root, const StorePath& place, Reporter& reporter) {
  std::set<std::string> known;
  for (const Found::Step& step : root.found.steps) known.insert(entry_name(step.directory));
  for (const std::string& file : root.format->root_files(place))
    known.insert(file.substr(0, file.find('/')));
  std::vector<std::string> others = place.list();
  std::erase_if(others, [&](const std::string& name) { return known.contains(name); });
  std::ranges::sort(others);
  if (others.empty()) return;
  reporter.note(fmt::format("left in {}, because hfshard reads only its steps: {}", place.text(),
                            quoted_list(others)));
}

}  // namespace

std::vector<ConvertReport> convert_steps(const SourceName& source, const PlanOptions& options,
                                         const StepList& steps, const RunOptions& run,
                                         Reporter& reporter,
                                         const std::function<void(const ConvertReport&)>& done) {
  if (!options.tree.same || options.tree.step || options.step || source.step)
    throw Error(ErrorCode::usage, "several steps keep their numbers");
  if (run.workers > 1) throw Error(ErrorCode::usage, "one process writes several steps");
  const StorePath place = find_place(source, bring_options(run, reporter));
  const std::vector<Found::Step> chosen = choose(place, steps);
  const PlanOptions wanted = with_target(place, options);
  check_root(format_of(wanted.target), run.out);
  std::vector<Chosen> all;
  all.reserve(chosen.size());
  for (const Found::Step& step : chosen) all.push_back(prepare(place, wanted, run, step));
  check_disk(all, run.out);
  const auto recognised = recognise(place);
  if (wanted.tree.all_items) note_others(*recognised, place, reporter);
  std::stable_partition(all.begin(), all.end(), [](const Chosen& each) { return each.staged; });
  const std::vector<std::uint64_t> numbers = numbers_of(recognised->found.steps);
  std::vector<ConvertReport> out;
  for (Chosen& each : all) {
    ConvertReport report = each.report.run.already_done
                               ? std::move(each.report)
                               : convert_place(place, each.options, each.run, reporter);
    report.plan.other_steps = numbers;
    std::erase(report.plan.other_steps, each.step.number);
    done(report);
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace hfshard
