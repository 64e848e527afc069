#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/hub_flags.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/progress.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

constexpr std::string_view kReshard = "reshard";

Json io_json(const std::vector<IoChoice>& choices) {
  Json out = Json::Array{};
  for (const IoChoice& choice : choices) {
    Json item;
    item["mode"] = std::string(to_string(choice.mode));
    item["why"] = choice.why;
    item["files"] = choice.files;
    out.array().push_back(std::move(item));
  }
  return out;
}

Json result_json(const ConvertReport& report) {
  const RunResult& run = report.run;
  Json out = outcome_json(report);
  out["output_bytes"] = run.output_bytes;
  out["written_bytes"] = run.written_bytes;
  out["skipped_bytes"] = run.skipped_bytes;
  out["source_bytes"] = run.source_bytes;
  out["peak_arena_bytes"] = run.peak_arena_bytes;
  out["journal_records"] = run.journal_records;
  out["overflows"] = run.overflows;
  out["io"]["read"] = io_json(run.reads);
  if (run.network) {
    Json& network = out["network"];
    network["requests"] = run.network->requests;
    network["data_requests"] = run.network->data_requests;
    network["data_bytes"] = run.network->bytes;
    network["used_bytes"] = run.network->used_bytes;
    network["unchecked_bytes"] = run.network->unchecked_bytes;
  }
  out["io"]["write"] = io_json(run.writes);
  out["model_names"] = Json::Array{};
  for (const std::string& name : report.plan.model_names)
    out["model_names"].array().emplace_back(name);
  return out;
}

void print_network(const RunResult& run) {
  if (!run.network) return;
  const NetworkUse& use = *run.network;
  std::string line =
      fmt::format("network   {} in {} requests", human_bytes(use.bytes), use.requests);
  if (use.used_bytes > 0) {
    line += fmt::format(", {:.3f} of what was needed",
                        static_cast<double>(use.bytes) / static_cast<double>(use.used_bytes));
  }
  print_line(line);
  if (use.unchecked_bytes == 0) return;
  print_line(
      fmt::format("unchecked {} by a checksum, as streamed; --keep-files compares whole files",
                  human_bytes(use.unchecked_bytes)));
}

void print_published(const ConvertReport& report, const std::string& out) {
  const RunResult& run = report.run;
  print_line(fmt::format("published {} ({} in {:.2f} s)", printable(run.path),
                         human_bytes(run.output_bytes), run.seconds));
  print_line(fmt::format("family    {}", family_text(report.plan)));
  print_dtypes(report.plan);
  print_line(fmt::format("digest    {}", run.root_digest));
  if (run.overflows > 0) {
    print_line(fmt::format("overflow  {} finite values became infinite: their dtype is too narrow",
                           run.overflows));
  }
  print_network(run);
  print_next(report.plan, run.path);
  if (report.plan.carries_tokenizer && !report.plan.side_directory.empty()) {
    print_line(fmt::format("tokenizer {}/{}", printable(out), report.plan.side_directory));
  }
}

void print_complete(const RunResult& run) {
  print_line(fmt::format("complete  {} carries this plan already", printable(run.path)));
}

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
    print_line(fmt::format("worker {}/{} wrote {}; when all have: hfshard finalize {}",
                           options.worker, options.workers, human_bytes(run.written_bytes),
                           shell_word(options.out)));
    print_network(run);
  }
}

// `command`: convert, or reshard.
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
        .hint(fmt::format("hfshard {} SOURCE OUT; without OUT, --dry-run says what would be done",
                          command));
  options.stop = &watch_interrupts();
  source.hub.stop = options.stop;
  source.keep_files = run_flags.keep_files;
  const auto progress = make_progress(session);
  source.hub.note = notes_of(*progress);
  const ConvertReport report = convert(source, wanted, options, *progress);
  progress->finish();
  if (session.json) {
    print_json(command, result_json(report));
  } else {
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
  } else {
    print_line(report.removed ? fmt::format("removed   {}", printable(report.path))
                              : fmt::format("nothing   {} is not there", printable(report.path)));
  }
  return 0;
}

}  // namespace

Command convert_command(Session& session) {
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto tree_flags = std::make_shared<TreeFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  Command out{.name = "convert",
              .summary = "convert between HuggingFace, Orbax and PyTorch",
              .description = {
                  "The output is published in one step when it is complete. Until then it grows in "
                  "a staging directory beside OUT, where --resume or the same command goes on and "
                  "which clean removes."}};
  out.positionals = {source_positional(*plan_flags), out_positional(*run_flags)};
  out.options = joined({plan_table(*plan_flags),
                        root_table(*tree_flags),
                        back_table(*tree_flags),
                        run_table(*run_flags),
                        {keep_files_option(run_flags->keep_files), dry_run_option(*run_flags)},
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"for MaxText, with scan_layers=true", "hfshard convert Qwen3-8B out"},
                  {"chunks that suit 8 x 4 devices, and one device as well",
                   "hfshard convert Qwen3-8B out --mesh fsdp=8,tensor=4 --mesh fsdp=1"},
                  {"scan_layers=false, all in f32",
                   "hfshard convert Qwen3-8B out --layers separate --dtype f32"},
                  {"names and shapes as they are stored, for any model",
                   "hfshard convert Qwen3-8B out --scheme hf"},
                  {"a model of the hub, and a copy of it in the cache",
                   "hfshard convert Qwen/Qwen3-8B out --keep-files"},
                  {"a HuggingFace directory with smaller files, in bf16",
                   "hfshard convert Qwen3-8B out --to safetensors --shard-bytes 2GB --dtype bf16"},
                  {"a checkpoint of MaxText as the model that it was made of",
                   "hfshard convert ckpt out --to safetensors"},
                  {"a checkpoint of MaxText as one of torchtitan, without the model between them",
                   "hfshard convert ckpt out --to dcp --scheme torchtitan"},
                  {"go on after Ctrl-C or a crash", "hfshard convert Qwen3-8B out --resume"},
                  {"the second of four workers; finalize publishes",
                   "hfshard convert Qwen3-8B out --worker 1/4"}};
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
      .summary = "lay a checkpoint out for another mesh",
      .description = {
          "Every array keeps its name, shape and values; chunks follow the mesh. What the arrays' "
          "axes mean is known of what hfshard wrote, and of checkpoints that say how they were "
          "sharded; --config names the model of others, --axes says it of single arrays, and what "
          "nothing says it of is cut by size.",
          "Works as convert does: staged, resumable, published in one step, in bounded memory "
          "however large the chunks of SOURCE are."}};
  out.positionals = {{.name = "SOURCE",
                      .to = &plan_flags->source,
                      .offer = Offer::directory,
                      .help = "a checkpoint directory, or a root with steps"},
                     out_positional(*run_flags)};
  out.options = joined({only(plan_table(*plan_flags),
                             {"--mesh", "--rules", "--chunk-bytes", "--checksum", "--compress",
                              "--dtype", "--cast", "--include", "--exclude", "--to"}),
                        root_table(*tree_flags),
                        reshard_table(*tree_flags),
                        back_table(*tree_flags),
                        run_table(*run_flags),
                        {dry_run_option(*run_flags)},
                        progress_table(session),
                        common_table(session)});
  std::ranges::find(out.options, "--to", &Option::name)->standard = "as SOURCE";
  out.examples = {{"for another mesh", "hfshard reshard out out16 --mesh fsdp=16"},
                  {"all in bf16", "hfshard reshard out out-bf16 --dtype bf16"},
                  {"axes of a checkpoint that hfshard did not write",
                   "hfshard reshard out out4 --mesh fsdp=4 --axes '*.wi_0.kernel=embed,,mlp'"}};
  out.run = [&session, plan_flags, tree_flags, run_flags] {
    return run_convert_command(session, kReshard, *plan_flags, *tree_flags, *run_flags);
  };
  return out;
}

Command finalize_command(Session& session) {
  const auto path = std::make_shared<std::string>();
  Command out{.name = "finalize", .summary = "publish an output written by N workers"};
  out.positionals = {{.name = "OUT",
                      .to = path.get(),
                      .offer = Offer::directory,
                      .help = "the output of the workers' convert commands"}};
  const auto overwrite = std::make_shared<bool>(false);
  out.options = joined({{{.name = "--overwrite",
                          .to = overwrite.get(),
                          .group = Group::run,
                          .help = "replace an existing step, as the workers were told to"}},
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"when all workers of convert have ended", "hfshard finalize out"}};
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
                      .help = "the output whose staging directory goes"}};
  out.options = common_table(session);
  out.examples = {{"give up what a stopped convert has written", "hfshard clean out"}};
  out.run = [&session, path] { return run_clean_command(session, *path); };
  return out;
}

}  // namespace hfshard
