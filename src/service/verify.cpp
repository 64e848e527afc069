#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "catalog/format.h"
#include "catalog/manifest_head.h"
#include "format/formats.h"
#include "plan/options_json.h"
#include "run/check/claims.h"
#include "run/check/gaps.h"
#include "run/check/object_check.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "run/check/written_files.h"
#include "service/element_place.h"
#include "service/header_size.h"
#include "service/linked.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/run_directory.h"
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

// Adds the place of the first difference, in the output and in its source.
void add_places(const Checkpoint& opened, const Model& model, const SourceName& source,
                const std::string& step, VerifyResult& result) {
  for (Difference& item : result.differences) {
    if (!item.first) continue;
    const auto array = opened.catalog().find(item.leaf);
    const auto leaf = std::ranges::lower_bound(model.leaves, item.leaf, {}, &Leaf::name);
    std::uint64_t element = 0;
    bool beyond = false;  // in an edge chunk's padding
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

// Compares what the conversion leaves out as a copy or a constant with what it writes.
void add_dropped(const Plan& plan, const RunOptions& run, VerifyResult& result) {
  try {
    check_claims(plan, run);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    result.differences.push_back({"", "", error.tensor(), error.sentence(), error.file()});
  }
}

// Adds the model's files that hfshard copied, and that the source lacks now.
void add_lacking(const Manifest& manifest, const Plan& plan, const std::string& directory,
                 VerifyResult& result) {
  if (plan.options().in_place || plan.options().tree.config_text || !exists(directory)) return;
  const std::vector<std::string>& there = plan.catalog().side_files;
  const auto is_recorded = [&](const std::string& name) {
    const auto has = [&](const std::vector<FileRecord>& files) {
      return std::ranges::find(files, name, &FileRecord::path) != files.end();
    };
    return has(manifest.files.side) || has(manifest.files.step);
  };
  for (const std::string& name : model_side_files(directory)) {
    const bool lacks = std::ranges::find(there, name) == there.end();
    if (!lacks || name == "config.json" || !is_recorded(name)) continue;
    const std::string path = join_path(directory, name);
    result.differences.push_back(
        {"", "", "", fmt::format("the source lacks this file ({})", path), path});
  }
}

VerifyResult against_source(const Checkpoint& opened, const Manifest& manifest,
                            const PlanOptions& recorded, const Format& target,
                            const SourceName& source, const RunOptions& run,
                            const std::string& step, Reporter& reporter) {
  const StorePath place = find_place(source);
  PlanOptions options = recorded;
  // The source can be the step's directory, or a copy of it.
  if (!has_steps(place)) options.tree.step.reset();
  const Plan plan = make_plan(place, options, target, run);
  VerifyResult out = verify_source(opened, plan, run, reporter);
  add_dropped(plan, run, out);
  add_places(opened, plan.model(), source, step, out);
  verify_source_objects(opened.catalog(), plan, run, out);
  if (recorded.tree.config_text)
    reporter.note("the model's files came with --config, so only its config.json is compared");
  const std::string& side = plan.files().side_directory;
  const std::string directory = side.empty() ? step : join_path(parent_path(step), side);
  verify_source_files(plan, step, directory, run, out);
  add_lacking(manifest, plan, directory, out);
  return out;
}

// Compares the record and all files that aren't data files with the written ones. `is_root`: the
// user names the root of the step, not only the step.
void verify_written(const Manifest& manifest, const FileLayout& layout, const std::string& step,
                    bool is_root, const RunOptions& run, VerifyResult& result) {
  if (manifest.is_damaged) {
    const std::string path = join_path(step, kManifestName);
    result.differences.push_back(
        {"", "", "", fmt::format("the record was changed after hfshard wrote it ({})", path),
         path});
  }
  verify_files(manifest.files.step, step, run, result);
  const std::string side = join_path(parent_path(step), layout.side_directory);
  // A step alone can be a copy without its original root.
  const bool is_in_place = entry_name(step) == layout.step_directory(manifest.step);
  if (is_root || (is_in_place && exists(side)))
    verify_files(manifest.files.side, side, run, result);
  if (is_root) verify_files(manifest.files.root, parent_path(step), run, result);
}

// Compares size, time and header of linked files with those at the link.
void add_links(const std::string& step, VerifyResult& result) {
  try {
    for (const LinkedFile& link : changed_links(step))
      result.differences.push_back(
          {"", "", "", fmt::format("{} ({})", link.fault, link.file), link.file});
  } catch (const Error& error) {  // damage to the list is already a finding
    if (result.differences.empty() || error.code() == ErrorCode::io) throw;
  }
}

// Opens an output. If damage prevents that, and the files already show damage, adds one difference.
std::unique_ptr<Checkpoint> open_output(const Format& target, const std::string& step,
                                        VerifyResult& result) {
  try {
    return open_remains(
        [&](bool despite_loss) {
          Choice choice;
          choice.despite_loss = despite_loss;
          return target.open_one(step, choice);
        },
        step);
  } catch (const Error& error) {  // damage is a finding
    const bool is_damage =
        error.code() == ErrorCode::corrupt || error.code() == ErrorCode::bad_input ||
        error.code() == ErrorCode::not_found || error.code() == ErrorCode::unsupported;
    if (!is_damage || result.differences.empty()) throw;
    result.differences.push_back({"", "", error.tensor(),
                                  "hfshard verified nothing else: " + error.sentence(),
                                  error.file()});
    return nullptr;
  }
}

// Compares arrays and objects with the record's digests, or with the source.
VerifyResult verify_data(const Checkpoint& opened, const Manifest& manifest,
                         const PlanOptions& recorded, const SourceName& source,
                         const RunOptions& run, const std::string& step, Reporter& reporter) {
  const Format& target = format_of(recorded.target);
  VerifyResult out = source.text.empty() ? verify_digests(opened, manifest, run, reporter)
                                         : against_source(opened, manifest, recorded, target,
                                                          source, run, step, reporter);
  if (source.text.empty()) verify_recorded_objects(opened.catalog(), manifest.digests, run, out);
  add_lost(opened.catalog(), out);
  return out;
}

// Refuses if a higher step has no record. The user wanted to verify that step, not the one found.
void refuse_unrecorded(const StepChoice& steps, const std::string& out) {
  if (!steps.taken || steps.others.empty() || steps.others.back() < *steps.taken) return;
  throw Error(ErrorCode::not_found,
              fmt::format("step {}, the highest, has no {}, so hfshard can't verify it",
                          steps.others.back(), kManifestName))
      .in_file(out)
      .hint(fmt::format("pass --step {} to verify the highest step that has one", *steps.taken));
}

}  // namespace

VerifyResult verify(const SourceName& named, const SourceName& source, const RunOptions& run,
                    Reporter& reporter) {
  const SourceName name = in_run(named);
  std::string out = name.text;
  refuse_unfinished(out, reporter);
  if (name.step) out = read_step(out, name.step).place.name();
  const std::string step = step_directory(out);
  if (step.empty() && !exists(out))
    throw Error(ErrorCode::not_found, "no such file or directory").in_file(out);
  if (step.empty()) {
    throw Error(ErrorCode::not_found, "no hfshard.json here, so hfshard can't verify this")
        .in_file(out)
        .hint(
            "pass an output of hfshard first, then its source; to read another program's "
            "checkpoint, run: hfshard inspect --data");
  }
  const Manifest manifest = read_manifest(join_path(step, kManifestName));
  const PlanOptions recorded = options_from_json(manifest.identity.at("options"));
  const Format& target = format_of(recorded.target);
  StepChoice steps = step_choice(name.text, step);
  if (!name.step) refuse_unrecorded(steps, out);
  VerifyResult files;
  const bool is_root = name.step.has_value() || step.size() > out.size();
  verify_written(manifest, layout_of(target, recorded.tree), step, is_root, run, files);
  check_header_size(std::array{StorePath(step)}, /*only_seen=*/true, run);
  VerifyResult result;
  if (const auto opened = open_output(target, step, files)) {
    result = verify_data(*opened, manifest, recorded, source, run, step, reporter);
    verify_gaps(*opened, manifest.files.data, step, run, result);
  }
  result.files = files.files;
  std::ranges::move(files.differences, std::back_inserter(result.differences));
  verify_data_sizes(manifest.files.data, step, result);
  result.path = step;
  result.step = steps.taken;
  result.other_steps = std::move(steps.others);
  add_links(step, result);
  return result;
}

}  // namespace hfshard
