#include <memory>

#include <CLI/CLI.hpp>

#include "tool/cli.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/values.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// The flags that only plan has, as typed.
struct PlanQuestionFlags {
  bool link = false;
  std::vector<std::string> load_meshes;
  std::uint64_t devices_per_host = 1;
};

int show_plan(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
              const PlanQuestionFlags& flags) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.link = flags.link;
  wanted.digests = !flags.link;
  if (flags.link && wanted.encoding.zstd_level != 0)
    throw Error(ErrorCode::usage, "--link takes no --compress: what is linked stays as it is");
  const PlanReport report =
      plan(plan_flags.source, wanted, run_options(session, run_flags),
           {flags.load_meshes, flags.devices_per_host, session.json ? UINT64_MAX : kShownLeaves});
  for (const std::string& line : note_lines(report.summary)) print_note(session, line);
  if (session.json) {
    if (report.refusal) throw Error(*report.refusal);  // one object: plan or error
    print_json_list("plan", plan_json(report), "leaves", report.leaves.size(),
                    [&](std::size_t i) { return leaf_json(report.leaves[i]); });
    return 0;
  }
  print_plan(report);
  if (report.refusal) throw Error(*report.refusal);
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
  const auto flags = std::make_shared<PlanQuestionFlags>();
  command->add_flag("--link", flags->link,
                    "plan what link would do: what is linked, what is not, and why");
  command
      ->add_option("--load-mesh", flags->load_meshes,
                   "what each host would read if it is loaded on this mesh; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--devices-per-host", flags->devices_per_host,
                   "devices that follow each other on a mesh and share a host, for --load-mesh "
                   "(default 1)")
      ->check(whole("--devices-per-host", 1));
  add_common_flags(*command, session);
  command->callback([&session, plan_flags, run_flags, flags] {
    session.run = [&session, plan_flags, run_flags, flags] {
      return show_plan(session, *plan_flags, *run_flags, *flags);
    };
  });
}

}  // namespace hfshard
