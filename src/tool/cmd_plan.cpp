#include <memory>

#include "tool/cli.h"
#include "tool/hub_flags.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

Option link_option(bool& link) {
  return {.name = "--link",
          .to = &link,
          .group = Group::link,
          .help = "show what link would do: linked data, copied data and the reasons"};
}

int run_plan_command(const Session& session, const PlanFlags& plan_flags,
                     const TreeFlags& tree_flags, const RunFlags& run_flags, bool link,
                     const LoadFlags& load) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.tree = tree_options(tree_flags);
  wanted.link = link;
  wanted.digests = !link;
  return show_plan(session, source_name(session, plan_flags.source, plan_flags.revision), wanted,
                   run_options(session, run_flags), {load.meshes, load.devices_per_host});
}

}  // namespace

int show_plan(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& run, PlanQuestions questions) {
  questions.most_leaves = session.json ? UINT64_MAX : kShownLeaves;
  questions.measure = true;
  const PlanReport report = plan(source, wanted, run, questions);
  // On a terminal the table comes first and scrolls away; the summary stays in sight.
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
  const auto tree_flags = std::make_shared<TreeFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  const auto link = std::make_shared<bool>(false);
  const auto load = std::make_shared<LoadFlags>();
  Command out{.name = "plan",
              .summary =
                  "show what convert would do: tensors, chunks, bytes, memory; reads only "
                  "headers"};
  out.positionals = {source_positional(*plan_flags, kSourceHelp), out_positional(*run_flags)};
  out.options = joined({plan_table(*plan_flags),
                        root_table(*tree_flags),
                        back_table(*tree_flags),
                        {link_option(*link)},
                        load_table(*load),
                        run_table(*run_flags),
                        common_table(session)});
  out.examples = {
      {"sizes, memory, and whether the disk is large enough", "hfshard plan Qwen3-8B out"},
      {"what each host of four devices reads when it loads the output",
       "hfshard plan Qwen3-8B --load-mesh fsdp=16 --devices-per-host 4"},
      {"what link would do", "hfshard plan Qwen3-8B out --link"},
      {"every leaf, as JSON", "hfshard plan Qwen3-8B --json"}};
  out.run = [&session, plan_flags, tree_flags, run_flags, link, load] {
    return run_plan_command(session, *plan_flags, *tree_flags, *run_flags, *link, *load);
  };
  return out;
}

}  // namespace hfshard
