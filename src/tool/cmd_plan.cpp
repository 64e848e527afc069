#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "run/staging.h"
#include "tool/cli.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"

namespace hfshard {
namespace {

int show_plan(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags) {
  const PlanOptions wanted = plan_options(plan_flags);
  const RunOptions options = run_options(run_flags);
  const auto target = make_target(wanted.target);
  const Plan plan = make_plan(plan_flags.source, wanted, *target, session.limits);
  print_notes(session, plan);
  const Budget budget = state_budget(plan, options.max_memory_bytes, options.jobs, 0);
  Json disk;
  if (!options.out.empty()) {
    check_output(plan, options);
    disk["free_bytes"] = free_bytes(out_paths(options.out, wanted.step).parent);
    disk["fits"] = disk["free_bytes"].as_uint() >= plan.totals.output_bytes;
  }
  if (session.json) {
    make_budget(plan, options.max_memory_bytes, options.jobs, 0);  // one object: plan or error
    Json object = plan_json(plan, budget);
    object["disk"] = disk;
    print_json_list("plan", std::move(object), "leaves", plan.model.leaves.size(),
                    [&](std::size_t i) { return leaf_json(plan, i); });
    return 0;
  }
  print_plan(plan, budget);
  if (!disk.is_null()) {
    print_line(fmt::format("disk      {} free, {}", human_bytes(disk["free_bytes"].as_uint()),
                           disk["fits"].as_bool() ? "enough" : "too little for convert"));
  }
  make_budget(plan, options.max_memory_bytes, options.jobs, 0);  // throws what convert would
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "plan", "show what convert would do: tensors, chunks, bytes, memory; reads headers only");
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  add_plan_flags(*command, *plan_flags);
  add_run_flags(*command, *run_flags);
  add_common_flags(*command, session);
  command->callback([&session, plan_flags, run_flags] {
    session.run = [&session, plan_flags, run_flags] {
      return show_plan(session, *plan_flags, *run_flags);
    };
  });
}

}  // namespace hfshard
