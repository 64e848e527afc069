#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "bytes/files.h"
#include "format/formats.h"
#include "plan/options_json.h"
#include "run/checking/read_back.h"
#include "run/keeping/linked_files.h"
#include "service/element_place.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/step.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

void add_lost(const Catalog& catalog, VerifyResult& result) {
  for (const Error& error : catalog.lost) {
    Difference item{"", "", error.tensor(), error.sentence(), error.file(), error.range()};
    if (!item.file.empty()) item.what += fmt::format(" ({})", item.file);
    result.differences.push_back(std::move(item));
  }
}

// Where the first element that differs is, in the output and in what it was made of.
void add_places(const Checkpoint& opened, const Model& model, const SourceName& source,
                const std::string& step, VerifyResult& result) {
  for (Difference& item : result.differences) {
    if (!item.first) continue;
    const auto array = opened.catalog().find(item.leaf);
    const auto leaf = std::ranges::lower_bound(model.leaves, item.leaf, {}, &Leaf::name);
    std::uint64_t element = 0;
    bool beyond = false;  // in what a chunk at the edge has outside of the array
    for (std::size_t d = 0; d < item.first->rank(); ++d) {
      beyond = beyond || (*item.first)[d] >= leaf->shape[d];
      element = element * leaf->shape[d] + (*item.first)[d];
    }
    if (beyond) continue;
    item.out = element_place(opened, *array, *item.first, step);
    item.file = item.out->file;
    item.source = element_place(model, static_cast<std::uint32_t>(leaf - model.leaves.begin()),
                                element, source.text);
    item.tensor = item.source->tensor;
  }
}

VerifyResult against_source(const Checkpoint& opened, const PlanOptions& recorded,
                            const Format& target, const SourceName& source, const RunOptions& run,
                            const std::string& step, Reporter& reporter) {
  const Plan plan = make_plan(find_place(source), recorded, target, limits_of(run));
  VerifyResult out = verify_source(opened, plan, run, reporter);
  add_places(opened, plan.model(), source, step, out);
  return out;
}

}  // namespace

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
  const auto opened = open_remains(
      [&](bool despite_loss) {
        Choice choice;
        choice.despite_loss = despite_loss;
        return target.open_one(step, choice);
      },
      step);
  VerifyResult result =
      source.text.empty() ? verify_digests(*opened, manifest, run, reporter)
                          : against_source(*opened, recorded, target, source, run, step, reporter);
  add_lost(opened->catalog(), result);
  result.path = step;
  StepChoice steps = step_choice(out, step);
  result.step = steps.taken;
  result.other_steps = std::move(steps.others);
  for (const LinkFinding& link : check_links(step))
    result.differences.push_back({"", "", "", fmt::format("{} ({})", link.what, link.file)});
  return result;
}

}  // namespace hfshard
