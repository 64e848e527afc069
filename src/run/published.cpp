#include "run/published.h"

#include <string>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "run/check/output_manifest.h"
#include "run/check/written_files.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The plan id covers names, shapes and sizes, so another commit can have the same.
void check_revision(const Plan& plan, const Manifest& manifest, const std::string& step) {
  const std::string wanted = plan.catalog().directory.revision();
  const std::string& found = manifest.revision;
  if (wanted.empty() || found.empty() || found == wanted) return;
  throw Error(
      ErrorCode::conflict,
      fmt::format("the output was made from commit {}, and the source is at {}", found, wanted))
      .in_file(step)
      .hint("pass another output, --output-step N, or --overwrite without --resume");
}

}  // namespace

void check_published(const Plan& plan, const OutPaths& paths) {
  const std::string step = published_step(plan, paths);
  const Manifest manifest = read_manifest(join_path(step, kManifestName));
  check_revision(plan, manifest, step);
  if (plan.options().in_place) return;  // its files are the source's
  const std::string& side = plan.files().side_directory;
  check_still_there(plan, manifest.files, step, side.empty() ? step : join_path(paths.out, side),
                    paths.out);
}

}  // namespace hfshard
