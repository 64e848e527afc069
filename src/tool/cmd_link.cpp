#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/progress.h"
#include "tool/values.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// The flags that only link has, as typed.
struct LinkFlags {
  std::string shards = "auto";
  bool in_place = false;
  bool side_file = false;
  bool digests = false;
};

ShardLinks shard_links(const std::string& text) {
  constexpr ShardLinks kKinds[] = {ShardLinks::automatic, ShardLinks::hard, ShardLinks::symbolic,
                                   ShardLinks::reflink};
  return kKinds[one_of(text, {"auto", "hard", "symbolic", "reflink"}, "--shards")];
}

void print_linked(const ConvertReport& report, bool digests) {
  const RunResult& run = report.run;
  print_line(fmt::format("published {} ({} linked, {} written, in {:.2f} s)", run.path,
                         human_bytes(report.plan.linked_bytes), human_bytes(run.output_bytes),
                         run.seconds));
  if (digests) {
    print_line(fmt::format("digest    {}", run.root_digest));
  } else {
    print_line("digest    none of what is linked; --digests reads and records them");
  }
  print_line(fmt::format("next      {}", next_command(report.plan, run.path)));
  print_line("note      chunks as HuggingFace stores them load slower than those of convert");
}

Json link_json(const ConvertReport& report) {
  Json out = outcome_json(report);
  add_linked(report.plan, out);
  out["written_bytes"] = report.plan.output_bytes;
  return out;
}

int run_link_command(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
                     const LinkFlags& flags) {
  RunOptions options = run_options(session, run_flags);
  options.shards = shard_links(flags.shards);
  if (options.out.empty() != flags.in_place) {
    throw Error(ErrorCode::usage, flags.in_place ? "--in-place takes no OUT"
                                                 : "link needs SOURCE and OUT, or --in-place");
  }
  options.stop = &watch_interrupts();
  const auto progress = make_progress(session.quiet);
  const ConvertReport report =
      link(plan_flags.source, plan_options(plan_flags),
           {flags.in_place, flags.side_file, flags.digests}, options, *progress);
  if (session.json) {
    print_json("link", link_json(report));
  } else if (report.run.already_done) {
    print_line(fmt::format("complete  {} carries this plan already", report.run.path));
  } else {
    print_linked(report, flags.digests);
  }
  return 0;
}

}  // namespace

void add_link_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "link", "the same tree with no copy: an index over the safetensors files themselves");
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  const auto flags = std::make_shared<LinkFlags>();
  command->footer(
      "Chunks are byte ranges of the source's files, which get a second name below OUT. What\n"
      "cannot be linked (computed or quantised values, casts) is converted into a side data file.\n"
      "An edit of the source in place is an edit of OUT; "
      "a source that is deleted stays as long as\n"
      "a hard link does.");
  add_plan_flags(*command, *plan_flags);
  command->remove_option(command->get_option("--to"));
  command->remove_option(command->get_option("--compress"));
  add_run_flags(*command, *run_flags);
  command->remove_option(command->get_option("--worker"));
  command->add_option("--shards", flags->shards,
                      "names of the source's files: auto (hard, else symbolic), hard, symbolic, "
                      "reflink (default auto)");
  command->add_flag("--in-place", flags->in_place,
                    "write the index into SOURCE, which then is both; takes no OUT");
  command->add_flag("--side-file", flags->side_file,
                    "with --in-place: write what cannot be linked beside it");
  command->add_flag("--digests", flags->digests,
                    "read what is linked and record its digests, for verify");
  add_common_flags(*command, session);
  command->callback([&session, plan_flags, run_flags, flags] {
    session.run = [&session, plan_flags, run_flags, flags] {
      return run_link_command(session, *plan_flags, *run_flags, *flags);
    };
  });
}

}  // namespace hfshard
