#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "service/damage.h"
#include "service/describe.h"
#include "service/linked.h"
#include "service/place.h"
#include "service/run_directory.h"
#include "service/step.h"
#include "service/stored_load.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Without the data, inspect lists only this many missing chunks. It counts all.
constexpr std::size_t kListedMissing = 20;

// Bytes of linked files have no checksums. A file's time and header show that it changed.
void add_link_damage(const StorePath& place, DamageList& found) {
  const std::string step = step_of(place);
  if (step.empty()) return;
  for (const LinkedFile& link : changed_links(step)) {
    found.items.push_back(
        {"", std::nullopt, ErrorCode::corrupt, link.fault, link.file, std::nullopt});
    ++found.count;
  }
}

// Opens a checkpoint to list it.
std::unique_ptr<Checkpoint> open_listed(const SourceName& name, const StorePath& place) {
  Choice choice;
  choice.items = name.items;
  choice.files.ignore_index = name.ignore_index;
  choice.without = {"*"};  // the report lists what it can't read
  return open_linked(place, [&] { return open_checkpoint(place, choice); });
}

void check_filter(const Catalog& catalog, const CheckpointInfo& found,
                  const InspectOptions& options) {
  const bool fits_object = std::ranges::any_of(
      catalog.objects, [&](const ObjectInfo& object) { return fits(options.filter, object.name); });
  if (!found.arrays.empty() || !found.unreadable.empty() || catalog.tensors.empty() || fits_object)
    return;
  Error error(ErrorCode::not_found, fmt::format("no {} has a name that matches {}",
                                                catalog.wording.array, quote(options.filter)));
  error.in_file(found.path);
  error.hint(fmt::format("the first name is {}; in a pattern, * matches anything",
                         quote(catalog.tensors.front().name)));
  throw error;
}

}  // namespace

InspectReport inspect(const SourceName& source, const InspectOptions& options, Reporter& reporter) {
  SourceName name = in_run(source);
  const std::string& place = name.text;
  refuse_unfinished(place, reporter);
  ReadStep step = read_step(find_place(name), name.step);
  name.step = step.taken;
  const std::unique_ptr<Checkpoint> opened = open_listed(name, step.place);
  InspectReport out;
  out.checkpoint = describe(opened->catalog(), place, options.filter);
  check_filter(opened->catalog(), out.checkpoint, options);
  if (options.pieces) add_pieces(*opened, place, out.checkpoint);
  out.checkpoint.step = step.taken;
  out.checkpoint.other_steps = std::move(step.others);
  for (const std::string& note : out.checkpoint.notes) reporter.note(note);
  if (!options.load_meshes.empty())
    out.loads = stored_loads(name, options, opened->catalog().unreadable, reporter);
  if (options.data) {
    out.damage = read_chunks(*opened, place, reporter, options.filter);
    add_damaged_objects(*opened, place, options.filter, out.damage);
    add_link_damage(step.place, out.damage);
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
