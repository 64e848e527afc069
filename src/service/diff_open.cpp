#include "service/diff_open.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "catalog/manifest_head.h"
#include "format/formats.h"
#include "service/damage.h"
#include "service/diff_compile.h"
#include "service/diff_parts.h"
#include "service/linked.h"
#include "service/own_names.h"
#include "service/place.h"
#include "service/recorded.h"
#include "service/run_directory.h"
#include "service/scheme_files.h"
#include "service/source.h"
#include "service/step.h"
#include "service/tree_names.h"
#include "service/tree_source.h"

namespace hfshard {
namespace {

// Opens the tree of a side. `step`: where hfshard's record of the files is.
void open_tree_of(const std::string& step, const DiffOptions& options, DiffSide& side) {
  std::shared_ptr<const Checkpoint> opened = open_remains(
      [&](bool despite_loss) {
        Choice choice = side.choice;
        choice.despite_loss = despite_loss;
        choice.without = options.exclude;
        return open_checkpoint(side.place, choice);
      },
      step);
  side.checkpoint = std::make_shared<TreeSource>(std::move(opened), side.place, std::string());
}

// Returns whether a name is that of a Hugging Face model. Doesn't ask the Hub, which has only
// those.
bool names_model(const SourceName& name) {
  return !exists(name.text) || is_model_place(find_place(without_notes(in_run(name))));
}

// Returns whether files without a config have the names of a scheme, by hfshard's record: those of
// a tree that reshard wrote as safetensors.
bool is_recorded_tree(const StorePath& place, const TreeOptions& model) {
  if (!place.local_path() || (model.config_text && !model.config_text->empty())) return false;
  const StorePath directory = model_directory(place);
  if (!(directory / kOriginName).exists()) return false;
  const auto mapping = recorded_mapping(directory);
  return mapping && mapping->scheme != kNamesScheme;
}

}  // namespace

SourceName without_notes(SourceName name) {
  name.hub.note = {};
  return name;
}

DiffSide find_side(const SourceName& named, Reporter& reporter) {
  const SourceName name = in_run(named);
  refuse_unfinished(name.text, reporter);
  DiffSide out;
  out.text = name.text;
  static_cast<ReadStep&>(out) = read_step(find_place(name), name.step);
  return out;
}

DiffSide open_side(DiffSide found, const SourceName& named, const SourceName& other,
                   const DiffOptions& options) {
  const SourceName name = in_run(named);
  DiffSide out = std::move(found);
  const std::string& tree = name.items.empty() ? options.items : name.items;
  const Format* format = tree_format(out.place);
  const bool has_items = format != nullptr && format->has_items(out.place);
  out.other_item = !tree.empty() && (!name.items.empty() || has_items);
  out.is_model = !out.other_item && is_model_place(out.place);
  if (out.is_model) {
    Choice choice;
    choice.files.ignore_index = name.ignore_index;
    choice.without = options.exclude;
    const std::shared_ptr<const Checkpoint> opened = open_source(out.place, choice);
    const TreeOptions model = tree_options(options, opened->catalog().config_text);
    out.is_model =
        !has_scheme_names(opened->catalog(), model, {}) && !is_recorded_tree(out.place, model);
    MappingOptions any;
    any.include = {"*"};  // missing tensors are differences
    out.checkpoint = out.is_model ? with_names_if_any(opened, out.place, {})
                                  : with_model_names(opened, model, any);
    const std::vector<std::string>& notes = out.checkpoint->catalog().notes;
    for (std::size_t i = opened->catalog().notes.size(); i < notes.size(); ++i)
      out.notes.push_back(fmt::format("{}: {}", name.text, notes[i]));
    return out;
  }
  if (out.other_item) out.choice.items = tree;
  out.choice.usual_items = has_items && !out.other_item && !names_model(other);
  open_tree_of(step_directory(out.taken ? out.place.name() : name.text), options, out);
  if (std::string changed = check_linked(out.place); !changed.empty())
    out.notes.push_back(std::move(changed));
  return out;
}

DiffSide open_other_tree(const DiffSide& side, const std::string& tree,
                         const DiffOptions& options) {
  DiffSide out;
  out.place = side.place / tree;
  out.text = out.place.text();
  out.other_item = true;
  open_tree_of(step_directory(side.place.name()), options, out);
  return out;
}

}  // namespace hfshard
