#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

#include "hfshard/report.h"

namespace hfshard {

/// `plan --json`, without its leaves and `disk`.
Json plan_json(const PlanReport& report);
/// One of its leaves, complete enough to rebuild the layout.
Json leaf_json(const PlannedLeaf& leaf);
/// Leaves that print_leaves shows; more are counted.
inline constexpr std::uint64_t kShownLeaves = 400;
/// The family, its scheme and how layers lie: `qwen3 (maxtext, stacked)`.
std::string family_text(const PlanSummary& plan);
/// The same for a person: a table of the leaves, and what is said of all of them.
void print_leaves(const PlanReport& report);
void print_plan(const PlanReport& report);
/// Prints a line for each change of dtype: what is decoded, and what is cast.
void print_dtypes(const PlanSummary& plan);
/// Adds what a plan links, and `not_linked`: the leaves that it could not, `[{"path", "why"}]`.
void add_linked(const PlanSummary& plan, Json& out);
/// What every run that publishes says of itself: `family`, `scheme`, `layers`, `warnings`, `notes`,
/// `drops`, `plan_id`, `path`, `published`, `already_done`, `root_digest`, `seconds`.
Json outcome_json(const ConvertReport& report);
/// Warnings, notes of the source and the mapping, and every named drop (grouped by reason).
std::vector<std::string> source_notes(const PlanSummary& plan);
/// The same for standard error before a run; of one that links, also what that is going to do.
std::vector<std::string> note_lines(const PlanSummary& plan);
/// The words that follow a loader's command for a published checkpoint, or a command that shows it.
std::vector<std::string> next_words(const PlanSummary& plan, const std::string& items);
/// The same for a person, to be pasted into a shell; and below it the other names that fit.
void print_next(const PlanSummary& plan, const std::string& items);

}  // namespace hfshard
