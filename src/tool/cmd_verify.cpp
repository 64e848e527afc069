#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "plan/options_json.h"
#include "run/verify.h"
#include "tool/cli.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/progress.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr int kDiffers = 5;

// The step directory that holds the manifest: OUT/<step>, OUT itself, or the parent of
// OUT/<step>/items.
std::string step_directory(const std::string& out) {
  if (exists(join_path(out, kManifestName))) return out;
  if (exists(join_path(parent_path(out), kManifestName))) return parent_path(out);
  std::string best;
  std::uint64_t highest = 0;
  if (const auto info = file_info(out); info && info->kind == FileKind::directory) {
    for (const std::string& name : list_directory(out)) {
      const bool decimal =
          !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      if (!decimal || name.size() > 18 || !exists(join_path(join_path(out, name), kManifestName)))
        continue;
      const std::uint64_t step = std::stoull(name);
      if (best.empty() || step >= highest) best = join_path(out, name);
      highest = std::max(highest, step);
    }
  }
  if (best.empty()) {
    throw Error(ErrorCode::not_found, "no hfshard.json here, so there is nothing to verify against")
        .in_file(out)
        .hint("outputs of other tools are read by: hfshard inspect --data");
  }
  return best;
}

int report(Session& session, const std::string& step, const VerifyResult& result) {
  if (session.json) {
    Json object;
    object["path"] = step;
    object["checked_bytes"] = result.checked_bytes;
    object["chunks"] = result.chunks;
    object["tensors"] = result.tensors;
    object["differences"] = Json::Array{};
    for (const Difference& difference : result.differences) {
      Json entry;
      entry["leaf"] = difference.leaf;
      entry["chunk"] = difference.chunk;
      entry["tensor"] = difference.tensor;
      entry["what"] = difference.what;
      object["differences"].array().push_back(std::move(entry));
    }
    print_json("verify", std::move(object));
  } else {
    for (const Difference& difference : result.differences) {
      std::string where = quote(difference.leaf);
      if (!difference.chunk.empty()) where += fmt::format(" chunk ({})", difference.chunk);
      if (!difference.tensor.empty()) where += fmt::format(" from {}", quote(difference.tensor));
      print_line(fmt::format("differs   {}: {}", where, difference.what));
    }
    print_line(fmt::format("{} {}: {} in {} chunks, {} source tensors, {} differences",
                           result.differences.empty() ? "verified " : "FAILED   ", step,
                           human_bytes(result.checked_bytes), result.chunks, result.tensors,
                           result.differences.size()));
  }
  return result.differences.empty() ? 0 : kDiffers;
}

int verify(Session& session, const std::string& out, const std::string& source,
           const RunFlags& flags) {
  RunOptions options = run_options(flags);
  options.stop = &watch_interrupts();
  const std::string step = step_directory(out);
  Manifest manifest = read_manifest(join_path(step, kManifestName));
  const PlanOptions recorded = options_from_json(manifest.plan.identity.at("options"));
  const auto target = make_target(recorded.target);
  const auto opened = target->open(step);
  const auto progress = make_progress(session.quiet);
  if (source.empty()) {
    return report(session, step, verify_digests(*opened, std::move(manifest), options, *progress));
  }
  const Plan plan = make_plan(source, recorded, *target, session.limits);
  return report(session, step, verify_source(*opened, plan, options, *progress));
}

}  // namespace

void add_verify_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "verify",
      "check an output: against its recorded digests, or byte for byte against its SOURCE");
  const auto out = std::make_shared<std::string>();
  const auto source = std::make_shared<std::string>();
  const auto flags = std::make_shared<RunFlags>();
  command->add_option("OUT", *out, "output of convert: the root, a step or its items directory")
      ->required();
  command->add_option("SOURCE", *source,
                      "what it was converted from (default: recorded digests only)");
  command->add_option("--max-memory", flags->max_memory, "bound on memory (default 2GiB)");
  command->add_option("-j,--jobs", flags->jobs, "kernel threads (default one per core)");
  add_common_flags(*command, session);
  command->callback([&session, out, source, flags] {
    session.run = [&session, out, source, flags] { return verify(session, *out, *source, *flags); };
  });
}

}  // namespace hfshard
