#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "run/convert.h"
#include "run/staging.h"
#include "tool/cli.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/progress.h"

#include "hfshard/error.h"

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

// A name of its own for a directory given as `.` or `x/..`.
std::string own_name(const std::string& directory) {
  std::error_code error;
  const auto real = std::filesystem::canonical(directory, error);
  return error ? directory : real.string();
}

// What cannot be linked must be allowed to be written, or is an error that says all of it.
void check_links_asked(const Plan& plan, const LinkFlags& flags) {
  constexpr std::size_t kShown = 8;
  if (plan.totals.linked_leaves == 0) {
    throw Error(ErrorCode::unsupported,
                fmt::format("nothing of this checkpoint can be linked; {}: {}",
                            plan.model.leaves.at(plan.not_linked.at(0).leaf).path,
                            plan.not_linked.at(0).why))
        .in_file(plan.catalog.location)
        .hint("use convert");
  }
  if (!flags.in_place || flags.side_file || plan.not_linked.empty()) return;
  std::vector<std::string> shown;
  for (const NotLinked& item : plan.not_linked) {
    if (shown.size() == kShown) break;
    shown.push_back(fmt::format("{}: {}", plan.model.leaves[item.leaf].path, item.why));
  }
  const std::size_t more = plan.not_linked.size() - shown.size();
  throw Error(ErrorCode::unsupported,
              fmt::format("{} leaves cannot be linked ({}{})", plan.not_linked.size(),
                          join(shown, "; "), more > 0 ? fmt::format("; and {} more", more) : ""))
      .in_file(plan.catalog.location)
      .hint("pass --side-file to write them, converted, beside the source's files");
}

void print_linked(const Plan& plan, const RunResult& result) {
  print_line(fmt::format("published {} ({} linked, {} written, in {:.2f} s)", result.path,
                         human_bytes(plan.totals.linked_bytes), human_bytes(result.output_bytes),
                         result.seconds));
  if (plan.options.digests) {
    print_line(fmt::format("digest    {}", result.root_digest));
  } else {
    print_line("digest    none of what is linked; --digests reads and records them");
  }
  print_line(fmt::format("next      {}", next_command(plan, result.path)));
  print_line("note      chunks as HuggingFace stores them load slower than those of convert");
}

Json link_json(const Plan& plan, const RunResult& result) {
  Json out = outcome_json(plan, result);
  add_linked(plan, out);
  out["written_bytes"] = plan.totals.output_bytes;
  return out;
}

int link(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
         const LinkFlags& flags) {
  PlanOptions wanted = plan_options(plan_flags);
  RunOptions options = run_options(run_flags);
  wanted.link = true;
  wanted.in_place = flags.in_place;
  wanted.digests = flags.digests;
  options.shards = shard_links(flags.shards);
  if (options.out.empty() != flags.in_place) {
    throw Error(ErrorCode::usage, flags.in_place ? "--in-place takes no OUT"
                                                 : "link needs SOURCE and OUT, or --in-place");
  }
  std::string source = plan_flags.source;
  if (flags.in_place) options.out = source = own_name(source);
  options.stop = &watch_interrupts();
  const auto target = make_target(wanted.target);
  const Plan plan = make_plan(source, wanted, *target, session.limits);
  print_notes(session, plan);
  check_links_asked(plan, flags);
  const auto progress = make_progress(session.quiet);
  const RunResult result = run_convert(plan, *target, options, *progress);
  if (session.json) {
    print_json("link", link_json(plan, result));
  } else if (result.already_done) {
    print_line(fmt::format("complete  {} carries this plan already", result.path));
  } else {
    print_linked(plan, result);
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
      return link(session, *plan_flags, *run_flags, *flags);
    };
  });
}

}  // namespace hfshard
