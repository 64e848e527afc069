#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

#include "hfshard/report.h"

namespace hfshard {

/// Returns the object of `plan --json`, without its leaves and `disk`.
Json plan_json(const PlanReport& report);
/// Returns one leaf, with all facts that rebuild the layout.
Json leaf_json(const PlannedLeaf& leaf);
/// Leaves that print_leaves shows; it counts the others.
inline constexpr std::uint64_t kShownLeaves = 400;
/// Returns the family, scheme and layers: `qwen3 (maxtext, stacked)`.
std::string family_text(const PlanSummary& plan);
/// Prints a table of the leaves, then the facts of all of them.
void print_leaves(const PlanReport& report);
void print_plan(const PlanReport& report);
/// Prints a line for each change of dtype: decoding or a cast.
void print_dtypes(const PlanSummary& plan);
/// Returns the changes of dtype as JSON.
Json dtypes_json(const PlanSummary& plan);
/// Adds what a plan links, and `not_linked`: the leaves that can't be linked, `[{"path", "why"}]`.
void add_linked(const PlanSummary& plan, Json& out);
/// Adds the facts that every publishing run reports: `family`, `scheme`, `layers`, `warnings`,
/// `notes`, `drops`, `plan_id`, `path`, `published`, `already_done`, `root_digest`, `seconds`.
Json outcome_json(const ConvertReport& report);
/// Returns the warnings, the notes on source and mapping, and every named drop, grouped by reason.
std::vector<std::string> source_notes(const PlanSummary& plan);
/// Returns what a linking run links and copies; nothing for other runs.
std::vector<std::string> link_lines(const PlanSummary& plan);
/// Returns the cost of loading the output.
std::vector<std::string> load_lines(const PlanSummary& plan);
/// Returns the arguments of a loader for a published checkpoint, or a command that shows it.
std::vector<std::string> next_words(const PlanSummary& plan, const std::string& items);
/// Returns the same as lines for a shell, and below them the other names that fit.
void print_next(const PlanSummary& plan, const std::string& items);

}  // namespace hfshard
