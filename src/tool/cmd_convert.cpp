#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "run/convert.h"
#include "run/recover.h"
#include "tool/cli.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/plan_report.h"
#include "tool/progress.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

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

Json result_json(const Plan& plan, const RunResult& result) {
  Json out = outcome_json(plan, result);
  out["output_bytes"] = result.output_bytes;
  out["written_bytes"] = result.written_bytes;
  out["skipped_bytes"] = result.skipped_bytes;
  out["peak_arena_bytes"] = result.peak_arena_bytes;
  out["journal_records"] = result.journal_records;
  out["overflows"] = result.overflows;
  out["io"]["read"] = io_json(result.reads);
  out["io"]["write"] = io_json(result.writes);
  out["model_names"] = Json::Array{};
  for (const std::string& name : plan.model.model_names)
    out["model_names"].array().emplace_back(name);
  return out;
}

void print_published(const Plan& plan, const RunResult& result, const std::string& out) {
  print_line(fmt::format("published {} ({} in {:.2f} s)", result.path,
                         human_bytes(result.output_bytes), result.seconds));
  print_line(fmt::format("digest    {}", result.root_digest));
  if (result.overflows > 0) {
    print_line(fmt::format("overflow  {} finite values became infinite: their dtype is too narrow",
                           result.overflows));
  }
  print_line(fmt::format("next      {}", next_command(plan, result.path)));
  if (!plan.catalog.side_files.empty()) {
    print_line(fmt::format("tokenizer {}", join_path(out, "hf")));
  }
}

int convert(Session& session, const PlanFlags& plan_flags, const RunFlags& run_flags) {
  const PlanOptions wanted = plan_options(plan_flags);
  RunOptions options = run_options(run_flags);
  const bool discards = wanted.target == "null";
  if (options.out.empty() != discards) {
    throw Error(ErrorCode::usage,
                discards ? "--to null takes no OUT" : "convert needs SOURCE and OUT");
  }
  options.stop = &watch_interrupts();
  const auto target = make_target(wanted.target);
  const Plan plan = make_plan(plan_flags.source, wanted, *target, session.limits);
  print_notes(session, plan);
  const auto progress = make_progress(session.quiet);
  const RunResult result = run_convert(plan, *target, options, *progress);
  if (session.json) {
    print_json("convert", result_json(plan, result));
  } else if (result.already_done) {
    print_line(fmt::format("complete  {} carries this plan already", result.path));
  } else if (result.published) {
    print_published(plan, result, options.out);
  } else if (discards) {
    print_line(fmt::format(
        "discarded {} in {:.2f} s ({}/s)", human_bytes(result.written_bytes), result.seconds,
        human_bytes(static_cast<std::uint64_t>(static_cast<double>(result.written_bytes) /
                                               std::max(result.seconds, 1e-9)))));
  } else {
    print_line(fmt::format("worker {}/{} wrote {}; when all have: hfshard finalize {}",
                           options.worker, options.workers, human_bytes(result.written_bytes),
                           options.out));
  }
  return 0;
}

int finalize(Session& session, const std::string& out) {
  const StagedPlan staged = read_staged_plan(out);
  const auto target = make_target(staged.options.target);
  const Plan plan = make_plan(staged.source, staged.options, *target, session.limits);
  RunOptions options;
  options.out = out;
  const auto progress = make_progress(session.quiet);
  const RunResult result = run_finalize(plan, *target, options, *progress);
  if (session.json) {
    print_json("finalize", result_json(plan, result));
  } else {
    print_published(plan, result, out);
  }
  return 0;
}

int clean(Session& session, const std::string& out) {
  const OutPaths paths = out_paths(out, 0);
  const std::string& staging = paths.staging;
  const bool there = exists(staging);
  if (there) {
    const DirectoryLock lock(staging,
                             DirectoryLock::Mode::exclusive);  // refuses while a run uses it
    remove_staging(paths);
  }
  if (session.json) {
    Json object;
    object["removed"] = there;
    object["path"] = staging;
    print_json("clean", std::move(object));
  } else {
    print_line(there ? fmt::format("removed   {}", staging)
                     : fmt::format("nothing   {} is not there", staging));
  }
  return 0;
}

}  // namespace

void add_convert_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("convert", "convert a HuggingFace checkpoint");
  const auto plan_flags = std::make_shared<PlanFlags>();
  const auto run_flags = std::make_shared<RunFlags>();
  add_plan_flags(*command, *plan_flags);
  add_run_flags(*command, *run_flags);
  add_common_flags(*command, session);
  command->callback([&session, plan_flags, run_flags] {
    session.run = [&session, plan_flags, run_flags] {
      return convert(session, *plan_flags, *run_flags);
    };
  });
}

void add_finalize_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("finalize", "publish an output written by N workers");
  const auto out = std::make_shared<std::string>();
  command->add_option("OUT", *out, "the output of the workers' convert commands")->required();
  add_common_flags(*command, session);
  command->callback(
      [&session, out] { session.run = [&session, out] { return finalize(session, *out); }; });
}

void add_clean_command(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("clean", "remove the staging directory of an unfinished output");
  const auto out = std::make_shared<std::string>();
  command->add_option("OUT", *out, "the output whose staging directory goes")->required();
  add_common_flags(*command, session);
  command->callback(
      [&session, out] { session.run = [&session, out] { return clean(session, *out); }; });
}

}  // namespace hfshard
