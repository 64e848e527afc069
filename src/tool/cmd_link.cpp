#include <filesystem>
#include <memory>
#include <optional>
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

// The flags of link alone, as typed.
struct LinkFlags {
  std::string shards = "auto";
  bool in_place = false;
  bool side_file = false;
  bool digests = false;
  std::optional<std::uint64_t> step;
};

std::vector<std::string> shard_names() { return {"auto", "hard", "symbolic", "reflink"}; }

ShardLinks shard_links(const std::string& text) {
  constexpr ShardLinks kKinds[] = {ShardLinks::automatic, ShardLinks::hard, ShardLinks::symbolic,
                                   ShardLinks::reflink};
  return kKinds[one_of(text, shard_names(), "--shards")];
}

OptionTable link_table(LinkFlags& flags) {
  return {
      {.name = "--shards",
       .to = &flags.shards,
       .value = "KIND",
       .choices = shard_names(),
       .group = Group::link,
       .help = "kind of links to the source's files: auto (hard, else symbolic), hard, symbolic or "
               "reflink"},
      {.name = "--in-place",
       .to = &flags.in_place,
       .group = Group::link,
       .help = "write the index into SOURCE, which is then both a model and an Orbax checkpoint; "
               "without OUT"},
      {.name = "--side-file",
       .to = &flags.side_file,
       .group = Group::link,
       .help = "allow copies of data that can't be linked: with --in-place any, else more than "
               "1GiB"},
      {.name = "--digests",
       .to = &flags.digests,
       .group = Group::link,
       .help = "read the linked data and record its digests for verify"}};
}

void print_awaited(const ConvertReport& report) {
  const std::vector<AwaitedFile>& awaited = report.run.awaited;
  if (awaited.empty()) return;
  std::uint64_t bytes = 0;
  for (const AwaitedFile& file : awaited) bytes += file.size_bytes;
  print_line(fmt::format("awaits    {} ({}) in the cache; the index points there",
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
    print_line("digest    not recorded for linked data; pass --digests to read and record it");
  }
  print_awaited(report);
  print_next(report.plan, run.path);
  print_line("note      linked chunks load more slowly than the chunks that convert writes");
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

PlanOptions link_options(const PlanFlags& plan_flags, const LinkFlags& flags) {
  PlanOptions out = plan_options(plan_flags);
  out.tree.step = flags.step;
  return out;
}

// An index that is written in place names its own directory.
int show_link_plan(const Session& session, const PlanFlags& plan_flags, RunOptions options,
                   const LinkFlags& flags) {
  PlanOptions wanted = link_options(plan_flags, flags);
  wanted.link = true;
  wanted.in_place = flags.in_place;
  wanted.digests = flags.digests;
  std::error_code unknown;  // the reader reports broken links
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
    throw Error(ErrorCode::usage, "--in-place writes into SOURCE, so it can't take OUT")
        .hint("leave out one of the two");
  if (options.out.empty() && !flags.in_place && !run_flags.dry_run)
    throw Error(ErrorCode::usage, "link needs SOURCE and OUT, or --in-place")
        .hint(
            "for an index beside the model's files: hfshard link SOURCE --in-place; elsewhere: "
            "hfshard link SOURCE OUT");
  if (run_flags.dry_run) return show_link_plan(session, plan_flags, options, flags);
  options.stop = &watch_interrupts();
  const auto progress = make_progress(session);
  SourceName source = source_name(session, plan_flags.source, plan_flags.revision);
  source.hub.stop = options.stop;
  source.keep_files = run_flags.keep_files;
  source.hub.note = notes_of(*progress);
  const ConvertReport report =
      link(source, link_options(plan_flags, flags),
           {flags.in_place, flags.side_file, flags.digests}, options, *progress);
  progress->finish();
  if (session.json) {
    print_json("link", link_json(report));
  } else if (session.quiet) {
    return 0;
  } else if (report.run.already_done) {
    print_line(fmt::format("complete  {} is already complete with these options",
                           printable(report.run.path)));
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
      .summary = "make an Orbax checkpoint without a copy: an index over the safetensors files",
      .description = {
          "The chunks are byte ranges of the source's files, and the files get a second "
          "name below OUT. hfshard converts data that can't be linked (computed or "
          "quantized values, casts) into a side file.",
          "If you edit the source's files in place, OUT changes too. If you delete the "
          "source, its hard links keep the data."}};
  out.positionals = {source_positional(*plan_flags, kModelHelp),
                     out_positional(*run_flags, "OUT/<step>/items")};
  out.options = joined({index_table(*plan_flags),
                        {step_option(flags->step)},
                        link_table(*flags),
                        without(run_table(*run_flags), {"--worker"}),
                        {keep_files_option(run_flags->keep_files), dry_run_option(*run_flags)},
                        progress_table(session),
                        common_table(session)});
  out.examples = {
      {"with hard links, without a copy", "hfshard link Qwen3-8B out"},
      {"into the model's own directory", "hfshard link Qwen3-8B --in-place --side-file"},
      {"any model, with its names and shapes unchanged", "hfshard link Qwen3-8B out --scheme hf"},
      {"show what would be linked", "hfshard link Qwen3-8B out --dry-run"}};
  out.run = [&session, plan_flags, run_flags, flags] {
    return run_link_command(session, *plan_flags, *run_flags, *flags);
  };
  return out;
}

}  // namespace hfshard
