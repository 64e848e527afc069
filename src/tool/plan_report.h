#pragma once

#include "plan/load.h"
#include "plan/plan.h"
#include "run/budget.h"
#include "tool/cli.h"

#include "hfshard/convert.h"

namespace hfshard {

/// The plan for `plan --json`, without its leaves.
Json plan_json(const Plan& plan, const Budget& budget);
/// One of its leaves, complete enough to rebuild the layout.
Json leaf_json(const Plan& plan, std::size_t leaf);
/// The same for a person.
void print_plan(const Plan& plan, const Budget& budget);
/// What loading on a mesh costs: `mesh`, `hosts`, `per_host[]`, `refused[]`, ...
Json load_json(const Plan& plan, const LoadCost& cost);
void print_load(const Plan& plan, const LoadCost& cost);
/// Adds what a plan links, and `not_linked`: the leaves that it could not, `[{"path", "why"}]`.
void add_linked(const Plan& plan, Json& out);
/// What every run that publishes says of itself: `plan_id`, `path`, `published`, `already_done`,
/// `root_digest`, `seconds`.
Json outcome_json(const Plan& plan, const RunResult& result);
/// Notes of the source and the mapping, and every named drop (grouped by reason), on stderr.
void print_notes(const Session& session, const Plan& plan);
/// The command that loads a published checkpoint.
std::string next_command(const Plan& plan, const std::string& items);

}  // namespace hfshard
