#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/hub_flags.h"
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

std::vector<std::string> shard_names() { return {"auto", "hard", "symbolic", "reflink"}; }

ShardLinks shard_links(const std::string& text) {
  constexpr ShardLinks kKinds[] = {ShardLinks::automatic, ShardLinks::hard, ShardLinks::symbolic,
                                   ShardLinks::reflink};
  return kKinds[one_of(text, shard_names(), "--shards")];
}

OptionTable link_table(LinkFlags& flags) {
  return {{.name = "--shards",
           .to = &flags.shards,
           .value = "KIND",
           .choices = shard_names(),
           .group = Group::link,
           .help = "names of the source's files: auto (hard, else symbolic), hard, symbolic, "
                   "reflink"},
          {.name = "--in-place",
           .to = &flags.in_place,
           .group = Group::link,
           .help = "write the index into SOURCE, which then is both; takes no OUT"},
          {.name = "--side-file",
           .to = &flags.side_file,
           .group = Group::link,
           .help = "write what cannot be linked beside the index: any of it with --in-place, "
                   "else more than 1GiB"},
          {.name = "--digests",
           .to = &flags.digests,
           .group = Group::link,
           .help = "read what is linked and record its digests, for verify"}};
}

void print_awaited(const ConvertReport& report) {
  const std::vector<AwaitedFile>& awaited = report.run.awaited;
  if (awaited.empty()) return;
  std::uint64_t bytes = 0;
  for (const AwaitedFile& file : awaited) bytes += file.size_bytes;
  print_line(fmt::format("awaits    {} ({}) in the cache, where the index looks for them",
                         awaited.size() == 1 ? "1 file" : fmt::format("{} files", awaited.size()),
                         human_bytes(bytes)));
  print_line(fmt::format("fetch     hfshard fetch {}", shell_word(report.plan.source)));
}

void print_linked(const ConvertReport& report, bool digests) {
  const RunResult& run = report.run;
  print_line(fmt::format("published {} ({} linked, {} written, in {:.2f} s)", printable(run.path),
                         human_bytes(report.plan.linked_bytes), human_bytes(run.output_bytes),
                         run.seconds));
  if (digests) {
    print_line(fmt::format("digest    {}", run.root_digest));
  } else {
    print_line("digest    none of what is linked; --digests reads and records them");
  }
  print_awaited(report);
  print_next(report.plan, run.path);
  print_line("note      chunks as HuggingFace stores them load slower than those of convert");
}

Json link_json(const ConvertReport& report) {
  Json out = outcome_json(report);
  add_linked(report.plan, out);
  out["awaited"] = Json::Array{};
  for (const AwaitedFile& file : report.run.awaited) {
    Json item;
    item["path"] = file.path;
    item["size_bytes"] = file.size_bytes;
    out["awaited"].array().push_back(std::move(item));
  }
  out["written_bytes"] = report.plan.output_bytes;
  return out;
}

// What is linked in place has the name of its source.
int show_link_plan(const Session& session, const PlanFlags& plan_flags, RunOptions options,
                   const LinkFlags& flags) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.link = true;
  wanted.in_place = flags.in_place;
  wanted.digests = flags.digests;
  std::error_code unknown;  // what cannot be followed is said by what reads it
  if (flags.in_place)
    options.out = std::filesystem::weakly_canonical(plan_flags.source, unknown).string();
  return show_plan(session, source_name(session, plan_flags.source, plan_flags.revision), wanted,
                   options);
}

int run_link_command(const Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags,
                     const LinkFlags& flags) {
  RunOptions options = run_options(session, run_flags);
  options.shards = shard_links(flags.shards);
  if (!options.out.empty() && flags.in_place)
    throw Error(ErrorCode::usage, "--in-place takes no OUT");
  if (options.out.empty() && !flags.in_place && !run_flags.dry_run)
    throw Error(ErrorCode::usage, "link needs SOURCE and OUT, or --in-place");
  if (run_flags.dry_run) return show_link_plan(session, plan_flags, options, flags);
  options.stop = &watch_interrupts();
  const auto progress = make_progress(session);
  SourceName source = source_name(session, plan_flags.source, plan_flags.revision);
  source.hub.stop = options.stop;
  source.keep_files = run_flags.keep_files;
  source.hub.note = notes_of(*progress);
  const ConvertReport report =
      link(source, plan_options(plan_flags), {flags.in_place, flags.side_file, flags.digests},
           options, *progress);
  progress->finish();
  if (session.json) {
    print_json("link", link_json(report));
  } else if (report.run.already_done) {
    print_line(fmt::format("complete  {} carries this plan already", printable(report.run.path)));
  } else {
    print_linked(report, flags.digests);
  }
  return 0;
}

}  // namespace

Command link_command(Session& session) {
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  const auto flags = std::make_shared<LinkFlags>();
  Command out{
      .name = "link",
      .summary = "the same tree with no copy: an index over the safetensors files themselves",
      .description = {"Chunks are byte ranges of the source's files, which get a second name below "
                      "OUT. What cannot be linked (computed or quantised values, casts) is "
                      "converted into a side data file.",
                      "An edit of the source in place is an edit of OUT; a source that is deleted "
                      "stays as long as a hard link does."}};
  out.positionals = {source_positional(*plan_flags),
                     out_positional(*run_flags, "OUT/<step>/items")};
  out.options = joined({index_table(*plan_flags),
                        link_table(*flags),
                        without(run_table(*run_flags), {"--worker"}),
                        {keep_files_option(run_flags->keep_files), dry_run_option(*run_flags)},
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"hard links below out, nothing is copied", "hfshard link Qwen3-8B out"},
                  {"the checkpoint itself becomes an Orbax checkpoint too",
                   "hfshard link Qwen3-8B --in-place --side-file"},
                  {"with names and shapes as stored all of any model is linked",
                   "hfshard link Qwen3-8B out --scheme hf"},
                  {"what would be linked, and what not", "hfshard link Qwen3-8B out --dry-run"}};
  out.run = [&session, plan_flags, run_flags, flags] {
    return run_link_command(session, *plan_flags, *run_flags, *flags);
  };
  return out;
}

}  // namespace hfshard
