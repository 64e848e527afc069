#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "run/keeping/linked_files.h"
#include "service/damage.h"
#include "service/describe.h"
#include "service/place.h"
#include "service/step.h"
#include "service/stored_load.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Without the data only so many missing chunks are listed; all are counted.
constexpr std::size_t kListedMissing = 20;

// Bytes of linked files have no checksums; what says that a file changed is its time.
void add_link_damage(const std::string& place, DamageList& found) {
  const std::string step = step_directory(place);
  if (step.empty()) return;
  for (const LinkFinding& link : check_links(step)) {
    found.items.push_back(
        {"", std::nullopt, ErrorCode::corrupt, link.what, link.file, std::nullopt});
    ++found.count;
  }
}

// Of a checkpoint that awaits files, says so.
std::unique_ptr<Checkpoint> open_linked(const SourceName& name) {
  const StorePath place = find_place(name);
  try {
    return open_checkpoint(place, {name.step, name.items});
  } catch (const Error& error) {
    const std::string step = step_directory(name.text);
    if (step.empty()) throw;
    throw explained(error, step);
  }
}

void check_filter(const Catalog& catalog, const CheckpointInfo& found,
                  const InspectOptions& options) {
  if (!found.arrays.empty() || catalog.tensors.empty()) return;
  Error error(ErrorCode::not_found, fmt::format("no {} has a name that fits {}",
                                                catalog.wording.array, quote(options.filter)));
  error.in_file(found.path);
  error.hint(fmt::format("the first is {}; in a pattern * stands for anything",
                         quote(catalog.tensors.front().name)));
  throw error;
}

}  // namespace

InspectReport inspect(const SourceName& name, const InspectOptions& options, Reporter& reporter) {
  const std::string& place = name.text;
  refuse_unfinished(place, reporter);
  const std::unique_ptr<Checkpoint> opened = open_linked(name);
  InspectReport out;
  out.checkpoint = describe(opened->catalog(), place, options.filter);
  check_filter(opened->catalog(), out.checkpoint, options);
  if (options.pieces) add_pieces(*opened, place, out.checkpoint);
  StepChoice steps = step_choice(place, name.step);
  out.checkpoint.step = steps.taken;
  out.checkpoint.other_steps = std::move(steps.others);
  for (const std::string& note : out.checkpoint.notes) reporter.note(note);
  if (!options.load_meshes.empty()) out.loads = stored_loads(name, options, reporter);
  if (options.data) {
    out.damage = read_chunks(*opened, place, reporter, options.filter);
    add_link_damage(place, out.damage);
  } else {
    out.damage = find_missing_chunks(*opened, place, kListedMissing, options.filter);
  }
  return out;
}

std::vector<Target> targets() {
  std::vector<Target> out;
  const auto add = [&](const Format& format) {
    out.push_back({std::string(format.name()), format.discards(), std::string(format.scheme()),
                   format.layout().whole_arrays, !format.layout().axis_rules.empty()});
  };
  add(default_target());
  for (const Format* format : all_formats()) {
    if (format->writes() && format != &default_target()) add(*format);
  }
  return out;
}

}  // namespace hfshard
