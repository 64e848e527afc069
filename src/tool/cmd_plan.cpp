#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "run/pipeline.h"
#include "run/staging.h"
#include "tool/cli.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The flags that only plan has, as typed.
struct ShowFlags {
  bool link = false;
  std::vector<std::string> load_meshes;
  std::uint64_t devices_per_host = 1;
};

// Of a plan that links, loading on the meshes that it was made for is asked about unless others
// are.
std::vector<LoadCost> load_costs(const Plan& plan, const ShowFlags& flags) {
  std::vector<LoadCost> out;
  if (flags.devices_per_host == 0)
    throw Error(ErrorCode::usage, "--devices-per-host is at least 1");
  for (const std::string& mesh : flags.load_meshes)
    out.push_back(load_cost(plan, parse_mesh(mesh, plan.rules), flags.devices_per_host));
  if (!flags.link || !out.empty()) return out;
  for (const Mesh& mesh : plan.meshes) out.push_back(load_cost(plan, mesh, flags.devices_per_host));
  return out;
}

int show_plan(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
              const ShowFlags& flags) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.link = flags.link;
  wanted.digests = !flags.link;
  if (flags.link && wanted.encoding.zstd_level != 0)
    throw Error(ErrorCode::usage, "--link takes no --compress: what is linked stays as it is");
  const RunOptions options = run_options(run_flags);
  const auto target = make_target(wanted.target);
  const Plan plan = make_plan(plan_flags.source, wanted, *target, session.limits);
  print_notes(session, plan);
  const unsigned threads = pipeline_threads(options);
  const Budget budget = state_budget(plan, options.max_memory_bytes, threads, 0);
  const std::vector<LoadCost> loads = load_costs(plan, flags);
  Json disk;
  if (!options.out.empty()) {
    check_output(plan, options);
    disk["free_bytes"] = free_bytes(out_paths(options.out, wanted.step).parent);
    disk["fits"] = disk["free_bytes"].as_uint() >= plan.totals.output_bytes;
  }
  if (session.json) {
    make_budget(plan, options.max_memory_bytes, threads, 0);  // one object: plan or error
    Json object = plan_json(plan, budget);
    object["disk"] = disk;
    if (!loads.empty()) object["loads"] = Json::Array{};
    for (const LoadCost& cost : loads) object["loads"].array().push_back(load_json(plan, cost));
    print_json_list("plan", std::move(object), "leaves", plan.model.leaves.size(),
                    [&](std::size_t i) { return leaf_json(plan, i); });
    return 0;
  }
  print_plan(plan, budget);
  for (const LoadCost& cost : loads) print_load(plan, cost);
  if (!disk.is_null()) {
    const char* lacking =
        plan.is_packed() ? "enough only if it compresses well" : "too little for convert";
    print_line(fmt::format("disk      {} free, {}", human_bytes(disk["free_bytes"].as_uint()),
                           disk["fits"].as_bool() ? "enough" : lacking));
  }
  make_budget(plan, options.max_memory_bytes, threads, 0);  // throws what convert would
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
  const auto flags = std::make_shared<ShowFlags>();
  command->add_flag("--link", flags->link,
                    "plan what link would do: what is linked, what is not, and why");
  command
      ->add_option("--load-mesh", flags->load_meshes,
                   "what each host would read if it is loaded on this mesh; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--devices-per-host", flags->devices_per_host,
                      "devices that follow each other on a mesh and share a host, for --load-mesh "
                      "(default 1)");
  add_common_flags(*command, session);
  command->callback([&session, plan_flags, run_flags, flags] {
    session.run = [&session, plan_flags, run_flags, flags] {
      return show_plan(session, *plan_flags, *run_flags, *flags);
    };
  });
}

}  // namespace hfshard
