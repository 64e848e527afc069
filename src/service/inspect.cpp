#include <memory>
#include <utility>

#include "format/formats.h"
#include "run/keeping/linked_files.h"
#include "service/damage.h"
#include "service/describe.h"
#include "service/place.h"
#include "service/step.h"

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

}  // namespace

InspectReport inspect(const SourceName& name, const InspectOptions& options, Reporter& reporter) {
  const std::string& place = name.text;
  refuse_unfinished(place, reporter);
  const std::unique_ptr<Checkpoint> opened = open_checkpoint(find_place(name));
  InspectReport out;
  out.checkpoint = describe(opened->catalog(), place);
  StepChoice steps = step_choice(place);
  out.checkpoint.step = steps.taken;
  out.checkpoint.other_steps = std::move(steps.others);
  for (const std::string& note : out.checkpoint.notes) reporter.note(note);
  if (options.data) {
    out.damage = read_chunks(*opened, place, reporter);
    add_link_damage(place, out.damage);
  } else {
    out.damage = find_missing_chunks(*opened, kListedMissing);
  }
  return out;
}

std::vector<Target> targets() {
  std::vector<Target> out{{std::string(default_target().name()), false}};
  for (const Format* format : all_formats()) {
    if (format->writes() && format != &default_target())
      out.push_back({std::string(format->name()), format->discards()});
  }
  return out;
}

}  // namespace hfshard
