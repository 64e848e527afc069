#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/cmd_steps.h"
#include "tool/convert_report.h"
#include "tool/hub_flags.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/progress.h"
#include "tool/steps.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

constexpr std::string_view kReshard = "reshard";

void print_converted(const ConvertReport& report, const RunOptions& options) {
  const RunResult& run = report.run;
  if (run.already_done) {
    print_complete(run);
  } else if (run.published) {
    print_published(report, options.out);
  } else if (options.out.empty()) {
    print_line(
        fmt::format("discarded {} in {:.2f} s ({}/s)", human_bytes(run.written_bytes), run.seconds,
                    human_bytes(static_cast<std::uint64_t>(static_cast<double>(run.written_bytes) /
                                                           std::max(run.seconds, 1e-9)))));
    print_network(run);
  } else {
    print_line(fmt::format(
        "worker {}/{} wrote {}; when all workers are done, run: hfshard finalize {}",
        options.worker, options.workers, human_bytes(run.written_bytes), shell_word(options.out)));
    print_network(run);
  }
}

// `command`: convert or reshard.
int run_convert_command(const Session& session, std::string_view command,
                        const PlanFlags& plan_flags, const TreeFlags& tree_flags,
                        const RunFlags& run_flags) {
  PlanOptions wanted = plan_options(plan_flags);
  wanted.tree = tree_options(tree_flags);
  wanted.tree.same = command == kReshard;
  if (wanted.tree.same && plan_flags.to.empty()) wanted.target.clear();
  RunOptions options = run_options(session, run_flags);
  SourceName source = source_name(session, plan_flags.source, plan_flags.revision);
  if (run_flags.dry_run) return show_plan(session, source, wanted, options);
  if (options.out.empty() && !target_of(wanted.target).discards)
    throw Error(ErrorCode::usage, fmt::format("{} needs SOURCE and OUT", command))
        .hint(fmt::format("run hfshard {} SOURCE OUT, or pass --dry-run to see what it would do",
                          command));
  options.stop = &watch_interrupts();
  source.hub.stop = options.stop;
  if (!tree_flags.steps.empty())
    return run_steps(session, source, wanted, options, parse_step_list(tree_flags.steps));
  source.keep_files = run_flags.keep_files;
  const auto progress = make_progress(session);
  source.hub.note = notes_of(*progress);
  const ConvertReport report = convert(source, wanted, options, *progress);
  progress->finish();
  if (session.json) {
    print_json(command, result_json(report));
  } else if (!session.quiet) {
    print_converted(report, options);
  }
  return 0;
}

int run_finalize_command(const Session& session, const std::string& out, bool overwrite) {
  RunOptions options;
  options.out = out;
  options.overwrite = overwrite;
  options.limits = session.limits;
  options.stop = &watch_interrupts();
  const auto progress = make_progress(session);
  HubOptions hub = hub_options(session);
  hub.stop = options.stop;
  const ConvertReport report = finalize(options, *progress, hub);
  progress->finish();
  if (session.json) {
    print_json("finalize", result_json(report));
  } else if (session.quiet) {
    return 0;
  } else if (report.run.already_done) {
    print_complete(report.run);
  } else {
    print_published(report, out);
  }
  return 0;
}

int run_clean_command(const Session& session, const std::string& out) {
  const CleanReport report = clean(out);
  if (session.json) {
    Json object;
    object["removed"] = report.removed;
    object["path"] = report.path;
    print_json("clean", std::move(object));
  } else if (!session.quiet) {
    print_line(report.removed ? fmt::format("removed   {}", printable(report.path))
                              : fmt::format("nothing   {} doesn't exist", printable(report.path)));
  }
  return 0;
}

}  // namespace

Command convert_command(Session& session) {
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto tree_flags = std::make_shared<TreeFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  Command out{.name = "convert",
              .summary = "convert between Hugging Face, Orbax and PyTorch",
              .description = {
                  "hfshard publishes the output in one step when it is complete. Until then the "
                  "output grows in a staging directory next to OUT. Pass --resume to continue a "
                  "stopped run; hfshard clean removes the staging directory."}};
  out.positionals = {source_positional(*plan_flags, kSourceHelp), out_positional(*run_flags)};
  out.options = joined({plan_table(*plan_flags),
                        root_table(*tree_flags),
                        back_table(*tree_flags),
                        run_table(*run_flags),
                        {keep_files_option(run_flags->keep_files), dry_run_option(*run_flags)},
                        progress_table(session),
                        common_table(session)});
  out.examples = {
      {"for MaxText with scan_layers=true", "hfshard convert Qwen3-8B out"},
      {"chunks for a mesh of 8 x 4 devices and for one device",
       "hfshard convert Qwen3-8B out --mesh fsdp=8,tensor=4 --mesh fsdp=1"},
      {"for MaxText with scan_layers=false, in f32",
       "hfshard convert Qwen3-8B out --layers separate --dtype f32"},
      {"any model, with its names and shapes unchanged",
       "hfshard convert Qwen3-8B out --scheme hf"},
      {"a Hub model, kept in the cache", "hfshard convert Qwen/Qwen3-8B out --keep-files"},
      {"a Hugging Face directory with smaller files, in bf16",
       "hfshard convert Qwen3-8B out --to safetensors --shard-bytes 2GB --dtype bf16"},
      {"a MaxText checkpoint back to Hugging Face files",
       "hfshard convert ckpt out --to safetensors"},
      {"a MaxText checkpoint straight to torchtitan",
       "hfshard convert ckpt out --to dcp --scheme torchtitan"},
      {"continue after Ctrl-C or a crash", "hfshard convert Qwen3-8B out --resume"},
      {"the second of four workers", "hfshard convert Qwen3-8B out --worker 1/4"}};
  out.run = [&session, plan_flags, tree_flags, run_flags] {
    return run_convert_command(session, "convert", *plan_flags, *tree_flags, *run_flags);
  };
  return out;
}

Command reshard_command(Session& session) {
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto tree_flags = std::make_shared<TreeFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  Command out{
      .name = std::string(kReshard),
      .summary = "change a checkpoint's layout for another mesh",
      .description = {
          "Every array keeps its name, shape and values; the chunks follow the mesh. hfshard knows "
          "the logical axes of its own outputs, and of checkpoints that record their sharding. "
          "For other checkpoints, name the model with --config or the axes with --axes. Arrays "
          "without axes are cut by size.",
          "Like convert, reshard stages its output, can resume, publishes in one step and bounds "
          "its memory, however large the chunks of SOURCE are. --steps reshards several steps."}};
  out.positionals = {{.name = "SOURCE",
                      .to = &plan_flags->source,
                      .offer = Offer::directory,
                      .help = "checkpoint directory, or a root directory with steps"},
                     out_positional(*run_flags)};
  out.options =
      joined({only(plan_table(*plan_flags),
                   {"--mesh", "--rules", "--chunk-bytes", "--checksum", "--compress", "--dtype",
                    "--cast", "--include", "--exclude", "--to", "--output-step"}),
              root_table(*tree_flags),
              reshard_table(*tree_flags),
              back_table(*tree_flags),
              run_table(*run_flags),
              {dry_run_option(*run_flags)},
              progress_table(session),
              common_table(session)});
  std::ranges::find(out.options, "--to", &Option::name)->standard = "as SOURCE";
  std::ranges::find(out.options, "--output-step", &Option::name)->standard = "as SOURCE";
  out.examples = {{"for another mesh", "hfshard reshard out out16 --mesh fsdp=16"},
                  {"in bf16", "hfshard reshard out out-bf16 --dtype bf16"},
                  {"a step other than the highest", "hfshard reshard run out --step 1000"},
                  {"the last two steps of a run; a second run skips complete steps",
                   "hfshard reshard run out --steps -2 --mesh fsdp=16"},
                  {"a checkpoint that hfshard didn't write, with axes for some arrays",
                   "hfshard reshard out out4 --mesh fsdp=4 --axes '*.wi_0.kernel=embed,,mlp'"}};
  out.run = [&session, plan_flags, tree_flags, run_flags] {
    return run_convert_command(session, kReshard, *plan_flags, *tree_flags, *run_flags);
  };
  return out;
}

Command finalize_command(Session& session) {
  const auto path = std::make_shared<std::string>();
  Command out{.name = "finalize", .summary = "publish an output that several workers wrote"};
  out.positionals = {{.name = "OUT",
                      .to = path.get(),
                      .offer = Offer::directory,
                      .help = "OUT of the workers' convert commands"}};
  const auto overwrite = std::make_shared<bool>(false);
  out.options = joined({{{.name = "--overwrite",
                          .to = overwrite.get(),
                          .group = Group::run,
                          .help = "replace an existing step, as the workers' commands said"}},
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"after all workers have finished", "hfshard finalize out"}};
  out.run = [&session, path, overwrite] {
    return run_finalize_command(session, *path, *overwrite);
  };
  return out;
}

Command clean_command(Session& session) {
  const auto path = std::make_shared<std::string>();
  Command out{.name = "clean", .summary = "remove the staging directory of an unfinished output"};
  out.positionals = {{.name = "OUT",
                      .to = path.get(),
                      .offer = Offer::directory,
                      .help = "output whose staging directory is removed"}};
  out.options = common_table(session);
  out.examples = {{"discard what a stopped run has written", "hfshard clean out"}};
  out.run = [&session, path] { return run_clean_command(session, *path); };
  return out;
}

}  // namespace hfshard
