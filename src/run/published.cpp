#include "run/published.h"

#include <string>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "run/check/output_manifest.h"
#include "run/check/written_files.h"
#include "run/commit/journal.h"
#include "run/commit/publish.h"
#include "run/conversion.h"
#include "run/engine/far_reads.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The plan id covers names, shapes and sizes, so another commit can have the same. Returns whether
// the output was made from the source's commit: then its files are the same, too.
bool check_revision(const Plan& plan, const Manifest& manifest, const std::string& step) {
  const std::string wanted = plan.catalog().directory.revision();
  const std::string& found = manifest.revision;
  if (wanted.empty() || found.empty()) return false;
  if (found == wanted) return true;
  throw Error(
      ErrorCode::conflict,
      fmt::format("the output was made from commit {}, and the source is at {}", found, wanted))
      .in_file(step)
      .hint("pass another output, --output-step N, or --overwrite without --resume");
}

// A file that the conversion copies can have changed.
void check_copies(const Plan& plan, const std::string& step, const std::string& side,
                  const RunOptions& options) {
  VerifyResult found;
  verify_source_files(plan, step, side, options, found);
  if (found.differences.empty()) return;
  const Difference& first = found.differences.front();
  throw Error(ErrorCode::conflict, "the output was made from another source: " + first.what)
      .in_file(first.file.empty() ? step : first.file)
      .hint("pass another output, --output-step N, or --overwrite without --resume");
}

}  // namespace

bool check_published(const Plan& plan, const OutPaths& paths, const RunOptions& options) {
  const std::string step = published_step(plan, paths);
  const Manifest manifest = read_intact_manifest(join_path(step, kManifestName));
  const bool same_commit = check_revision(plan, manifest, step);
  if (plan.options().in_place) return same_commit;  // its files are the source's
  const std::string& side = plan.files().side_directory;
  const std::string copies = side.empty() ? step : join_path(paths.out, side);
  check_still_there(plan, manifest.files, step, copies, paths.out);
  if (!same_commit) check_copies(plan, step, copies, options);
  return same_commit;
}

void check_published(const Plan& plan, const OutPaths& paths, const RunOptions& options,
                     Reporter& reporter) {
  const bool same_commit = check_published(plan, paths, options);
  const Catalog& source = plan.catalog();
  // A tree is one file in its catalog, and its identity covers the content.
  const bool is_tree = source.files.size() == 1 && source.files.front().name == kWholeTree;
  if (same_commit || is_tree || plan.options().in_place) return;
  reporter.note(
      "hfshard compared the names, shapes and copied files of the source with the output, but no "
      "values; hfshard verify OUT SOURCE compares them");
}

bool has_kept(const Plan& plan, const Format& target, const RunOptions& options) {
  const OutPaths paths = out_paths(plan, options.out);
  if (options.resume && is_published(plan, target, paths)) return true;
  const ByteRange share = worker_share(plan, options.worker, options.workers);
  return exists(paths.staging) &&
         (read_journals(paths.staging, plan).done_bytes(share.begin, share.end) > 0 ||
          arrived_bytes(paths.staging, options) > 0);
}

}  // namespace hfshard
