#include <algorithm>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/cost/mesh_load.h"
#include "plan/layout/mesh.h"
#include "run/check/claims.h"
#include "run/commit/staging.h"
#include "run/engine/budget.h"
#include "run/engine/pipeline.h"
#include "service/enclosing.h"
#include "service/estimate.h"
#include "service/loadable.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/step.h"
#include "service/summary.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// A plan that links also reports loading on its own meshes, unless the user asks about others.
std::vector<LoadReport> load_reports(const Plan& plan, const PlanSummary& summary,
                                     const PlanQuestions& questions) {
  if (questions.load_meshes.empty() && questions.devices_per_host == 1) return summary.loads;
  std::vector<LoadReport> out;
  const auto ask = [&](const Mesh& mesh) {
    out.push_back(
        load_report(plan, load_cost(plan, plan.rules(), mesh, questions.devices_per_host)));
  };
  for (const std::string& mesh : questions.load_meshes) ask(parse_mesh(mesh, plan.rules()));
  if (!plan.options().link || !out.empty()) return out;
  for (const Mesh& mesh : plan.meshes()) ask(mesh);
  return out;
}

// Returns the error with which a run would refuse for lack of memory or threads.
std::optional<Error> refusal(const Plan& plan, const RunOptions& run, unsigned threads) {
  try {
    make_budget(plan, run.max_memory_bytes, threads, 0);
    check_claims_budget(plan, run.max_memory_bytes, threads);
    return std::nullopt;
  } catch (const Error& error) {  // a result here: the plan is still shown
    return error;
  }
}

// Adds a time estimate, or the reason why it's missing.
void add_time(const Plan& plan, const Format& target, const RunOptions& run, unsigned kernels,
              PlanReport& out) {
  if (run.out.empty()) {
    out.why_no_time = "without OUT, hfshard can't measure the disk";
    return;
  }
  if (!std::ranges::all_of(plan.catalog().tensors, &TensorInfo::is_whole)) {
    out.why_no_time = "the source is stored in pieces, and hfshard doesn't measure their decoding";
    return;
  }
  try {
    out.time = estimate_time(plan, target, run, kernels);
  } catch (const Error& error) {  // the plan doesn't depend on it
    out.why_no_time = error.sentence();
  }
}

}  // namespace

std::vector<std::string> mesh_axes() {
  return parse_axis_rules(default_axis_rules(MappingOptions().scheme), "the default rules")
      .mesh_axes();
}

PlanReport plan(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                const PlanQuestions& questions) {
  if (questions.devices_per_host == 0)
    throw Error(ErrorCode::usage, "pass --devices-per-host 1 or more");
  const StorePath place = find_place(source);
  ReadStep step = read_source_step(place, options.tree);
  const PlanOptions wanted = with_step(step, with_target(place, options));
  const Format& target = format_of(wanted.target);
  const Plan made = make_plan(place, wanted, target, run);
  if (!wanted.in_place) refuse_in_checkpoint(made, run.out);
  refuse_unloadable(made);
  PlanReport out;
  out.summary = summarise(made);
  out.summary.other_steps = std::move(step.others);
  const unsigned kernels = kernel_threads(run);
  const unsigned threads = kernels + run.io_threads;
  const Budget budget = state_budget(made, run.max_memory_bytes, threads, 0);
  out.memory = {
      std::max(budget.need_bytes, claims_need_bytes(made, threads)), budget.control_bytes,
      budget.control_bytes + budget.fixed_bytes + budget.arena_bytes + budget.unpack_bytes, kernels,
      threads};
  out.scratch_bytes = scratch_disk_bytes(made, budget);
  out.loads = load_reports(made, out.summary, questions);
  if (!run.out.empty()) {
    check_output(made, target, run);
    out.free_bytes = free_bytes(out_paths(run.out).parent);
  }
  out.refusal = refusal(made, run, threads);
  if (questions.measure) add_time(made, target, run, kernels, out);
  const std::uint64_t listed =
      std::min<std::uint64_t>(made.model().leaves.size(), questions.most_leaves);
  out.leaves.reserve(listed);
  for (std::size_t leaf = 0; leaf < listed; ++leaf) out.leaves.push_back(planned_leaf(made, leaf));
  return out;
}

}  // namespace hfshard
