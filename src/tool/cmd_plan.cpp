#include <memory>

#include "tool/cli.h"
#include "tool/hub_flags.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// The flags that only plan has, as typed.
struct PlanQuestionFlags {
  bool link = false;
  std::vector<std::string> load_meshes;
  std::uint64_t devices_per_host = 1;
};

OptionTable question_table(PlanQuestionFlags& flags) {
  return {{.name = "--link",
           .to = &flags.link,
           .group = Group::link,
           .help = "plan what link would do: what is linked, what is not, and why"},
          {.name = "--load-mesh",
           .to = &flags.load_meshes,
           .value = "NAME=N,...",
           .offer = Offer::axes,
           .group = Group::load,
           .help = "what each host would read if it is loaded on this mesh"},
          {.name = "--devices-per-host",
           .to = &flags.devices_per_host,
           .value = "N",
           .least = 1,
           .group = Group::load,
           .help = "devices that follow each other on a mesh and share a host, for --load-mesh"}};
}

int run_plan_command(const Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
                     const PlanQuestionFlags& flags) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.link = flags.link;
  wanted.digests = !flags.link;
  return show_plan(session, source_name(session, plan_flags.source, plan_flags.revision), wanted,
                   run_options(session, run_flags), {flags.load_meshes, flags.devices_per_host});
}

}  // namespace

int show_plan(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& run, PlanQuestions questions) {
  questions.most_leaves = session.json ? UINT64_MAX : kShownLeaves;
  questions.measure = true;
  const PlanReport report = plan(source, wanted, run, questions);
  // On a terminal what is longest scrolls away first, and the summary stays in sight.
  if (!session.json) print_leaves(report);
  flush_results();
  for (const std::string& line : source_notes(report.summary)) print_note(session, line);
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

Command plan_command(Session& session) {
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  const auto flags = std::make_shared<PlanQuestionFlags>();
  Command out{.name = "plan",
              .summary =
                  "show what convert would do: tensors, chunks, bytes, memory; reads "
                  "headers only"};
  out.positionals = {source_positional(*plan_flags), out_positional(*run_flags)};
  out.options = joined({plan_table(*plan_flags), question_table(*flags), run_table(*run_flags),
                        common_table(session)});
  out.examples = {
      {"sizes, memory, and whether the disk is large enough", "hfshard plan Qwen3-8B out"},
      {"what each host of four devices reads when it loads",
       "hfshard plan Qwen3-8B --load-mesh fsdp=16 --devices-per-host 4"},
      {"what link would do", "hfshard plan Qwen3-8B out --link"},
      {"every leaf, for programs", "hfshard plan Qwen3-8B --json"}};
  out.run = [&session, plan_flags, run_flags, flags] {
    return run_plan_command(session, *plan_flags, *run_flags, *flags);
  };
  return out;
}

}  // namespace hfshard
