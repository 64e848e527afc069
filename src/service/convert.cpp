#include "service/convert.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/options_json.h"
#include "run/check/output_manifest.h"
#include "run/commit/linked_files.h"
#include "run/commit/publish.h"
#include "run/commit/staging.h"
#include "run/commit/unfinished.h"
#include "run/conversion.h"
#include "service/enclosing.h"
#include "service/loadable.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/step.h"
#include "service/summary.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Returns a directory's real name if it's given as `.` or `x/..`.
std::string own_name(const std::string& directory) {
  std::error_code error;
  const auto real = std::filesystem::canonical(directory, error);
  return error ? directory : real.string();
}

// Checks that the run may write everything that can't be linked. Otherwise throws one error that
// lists all of it.
void check_links_asked(const PlanSummary& plan, const LinkOptions& link) {
  constexpr std::size_t kShown = 8;
  if (plan.linked_leaves == 0) {
    const NotLinkedLeaf& first = plan.not_linked.at(0);
    throw Error(
        ErrorCode::unsupported,
        fmt::format("no data in this checkpoint can be linked; {}: {}", first.path, first.why))
        .in_file(plan.source)
        .hint("use convert");
  }
  if (link.side_file || plan.not_linked.empty()) return;
  if (!link.in_place) {
    if (plan.output_bytes <= kMostSideBytes) return;
    const NotLinkedLeaf& first = plan.not_linked.front();
    throw Error(
        ErrorCode::usage,
        fmt::format("{} can't be linked, so link would write converted copies; the first is {}: {}",
                    human_bytes(plan.output_bytes), first.path, first.why))
        .in_file(plan.source)
        .hint(fmt::format(
            "link copies more than {} only with --side-file; hfshard plan --link lists it",
            human_bytes(kMostSideBytes)));
  }
  std::vector<std::string> shown;
  for (const NotLinkedLeaf& item : plan.not_linked) {
    if (shown.size() == kShown) break;
    shown.push_back(fmt::format("{}: {}", item.path, item.why));
  }
  const std::size_t more = plan.not_linked.size() - shown.size();
  throw Error(ErrorCode::unsupported,
              fmt::format("{} leaves can't be linked ({}{})", plan.not_linked.size(),
                          join(shown, "; "), more > 0 ? fmt::format("; and {} more", more) : ""))
      .in_file(plan.source)
      .hint("pass --side-file to write converted copies next to the source's files");
}

// Returns the output of a staging directory that was passed in its place.
std::string output_of(const std::string& place) {
  const auto run = is_staging(place) ? find_unfinished(place) : std::nullopt;
  return run ? run->out : place;
}

// Handles a finalize without a staged run. The run may have ended right after publishing.
ConvertReport finalized_before(const std::string& out) {
  const OutPaths paths = out_paths(out);
  const std::string step = step_directory(paths.out);
  if (step != paths.out && parent_path(step) != paths.out)
    read_staged_plan(out);  // throws: nothing was started
  const Manifest manifest = read_intact_manifest(join_path(step, kManifestName));
  const PlanOptions recorded = options_from_json(manifest.identity.at("options"));
  const Format& target = format_of(recorded.target);
  // A checkpoint that was linked in place lies where its source does.
  const bool lies_there = recorded.in_place || (step == paths.out) != target.layout().has_steps;
  if (!lies_there) read_staged_plan(out);
  clean_staging(paths);
  ConvertReport report;
  report.plan.id = manifest.plan_id;
  report.plan.identity = dump_json(manifest.identity);
  report.plan.family = manifest.model->family;
  report.plan.scheme = manifest.model->scheme;
  report.plan.stacked = manifest.model->stacked;
  report.plan.dialect = asked_dialect(recorded.mapping);
  report.run.already_done = true;
  const std::string item = layout_of(target, recorded.tree).item;
  report.run.path = recorded.in_place || item.empty() ? step : join_path(step, item);
  report.run.root_digest = manifest.digests.root;
  return report;
}

}  // namespace

BringOptions bring_options(const RunOptions& run, Reporter& reporter) {
  return {&reporter, bring_memory_bytes(run.max_memory_bytes)};
}

ConvertReport convert_place(const StorePath& place, const PlanOptions& options,
                            const RunOptions& run, Reporter& reporter) {
  ReadStep step = read_source_step(place, options.tree);
  const PlanOptions wanted = with_step(step, with_target(place, options));
  const Format& target = format_of(wanted.target);
  const Plan plan = make_plan(place, wanted, target, run);
  refuse_in_checkpoint(plan, run.out);
  ConvertReport out{summarise(plan), {}};
  out.plan.other_steps = std::move(step.others);
  refuse_unloadable(plan);
  reporter.planned(out.plan);
  out.run = run_convert(plan, target, run, reporter);
  return out;
}

ConvertReport convert(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                      Reporter& reporter) {
  return convert_place(find_place(source, bring_options(run, reporter)), options, run, reporter);
}

ConvertReport link(const SourceName& source, const PlanOptions& options, const LinkOptions& link,
                   const RunOptions& run, Reporter& reporter) {
  PlanOptions wanted = options;
  wanted.link = true;
  wanted.in_place = link.in_place;
  wanted.digests = link.digests;
  RunOptions where = run;
  if (link.in_place) where.out = own_name(source.text);
  const Format& target = format_of(wanted.target);
  const StorePath place =
      link.in_place ? StorePath(where.out) : find_place(source, bring_options(run, reporter));
  const Plan plan = make_plan(place, wanted, target, run);
  if (!link.in_place) refuse_in_checkpoint(plan, run.out);
  ConvertReport out{summarise(plan), {}};
  refuse_unloadable(plan);
  reporter.planned(out.plan);
  check_links_asked(out.plan, link);
  check_linkable(plan, run.shards);
  out.run = run_convert(plan, target, where, reporter);
  return out;
}

ConvertReport finalize(const RunOptions& asked, Reporter& reporter, const HubOptions& hub) {
  RunOptions run = asked;
  run.out = output_of(asked.out);
  if (!has_staged_plan(run.out)) return finalized_before(run.out);
  const StagedPlan staged = read_staged_plan(run.out);
  const Format& target = format_of(staged.options.target);
  SourceName source(staged.source);
  source.hub = hub;
  const Plan plan = make_plan(find_place(source), staged.options, target, limits_of(run));
  ConvertReport out{summarise(plan), {}};
  reporter.planned(out.plan);
  out.run = run_finalize(plan, target, run, reporter);
  return out;
}

CleanReport clean(const std::string& out) {
  const OutPaths paths = out_paths(output_of(out));
  return {paths.staging, clean_staging(paths)};
}

}  // namespace hfshard
