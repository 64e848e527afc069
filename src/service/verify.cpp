#include <utility>

#include <fmt/format.h>

#include "bytes/files.h"
#include "format/formats.h"
#include "plan/options_json.h"
#include "run/checking/read_back.h"
#include "run/keeping/linked_files.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/step.h"

#include "hfshard/hfshard.h"

namespace hfshard {

VerifyResult verify(const std::string& out, const SourceName& source, const RunOptions& run,
                    Reporter& reporter) {
  refuse_unfinished(out, reporter);
  const std::string step = step_directory(out);
  if (step.empty() && !exists(out))
    throw Error(ErrorCode::not_found, "no such file or directory").in_file(out);
  if (step.empty()) {
    throw Error(ErrorCode::not_found, "no hfshard.json here, so there is nothing to verify against")
        .in_file(out)
        .hint(
            "an output of convert or link comes first, then its source; outputs of other tools are "
            "read by: hfshard inspect --data");
  }
  const Manifest manifest = read_manifest(join_path(step, kManifestName));
  const PlanOptions recorded = options_from_json(manifest.identity.at("options"));
  const Format& target = format_of(recorded.target);
  const auto opened = target.open(step);
  VerifyResult result =
      source.text.empty()
          ? verify_digests(*opened, manifest, run, reporter)
          : verify_source(*opened, make_plan(find_place(source), recorded, target, limits_of(run)),
                          run, reporter);
  result.path = step;
  StepChoice steps = step_choice(out, step);
  result.step = steps.taken;
  result.other_steps = std::move(steps.others);
  for (const LinkFinding& link : check_links(step))
    result.differences.push_back({"", "", "", fmt::format("{} ({})", link.what, link.file)});
  return result;
}

}  // namespace hfshard
