#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "plan/compile/steps.h"
#include "plan/pair_layout.h"
#include "run/check/compare.h"
#include "service/diff_objects.h"
#include "service/diff_open.h"
#include "service/diff_sides.h"
#include "service/element_place.h"
#include "service/header_size.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/recorded.h"
#include "service/step.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

DiffedCheckpoint described(const DiffSide& side) {
  DiffedCheckpoint out;
  out.path = side.text;
  out.kind = side.catalog().wording.kind;
  out.tensors = side.catalog().tensors.size();
  out.step = side.taken;
  out.other_steps = side.others;
  return out;
}

TensorDiff::Form form_of(const Leaf& leaf) { return {leaf.dtype, leaf.shape}; }

bool is_wanted(const DiffOptions& options, std::string_view name) {
  const auto fits = [&](const std::string& glob) { return glob_match(glob, name); };
  if (std::ranges::any_of(options.exclude, fits)) return false;
  return options.include.empty() || std::ranges::any_of(options.include, fits);
}

// Adds the notes of a side, and one on arrays that can't be read.
void add_notes_of(const DiffSide& side, DiffResult& out) {
  out.notes.insert(out.notes.end(), side.notes.begin(), side.notes.end());
  std::vector<std::string> names;
  for (const UnreadableArray& array : side.catalog().unreadable) names.push_back(array.name);
  if (names.empty()) return;
  out.notes.push_back(fmt::format("{}: not compared, since hfshard can't read it: {}", side.text,
                                  quoted_list(names)));
}

// Turns the differences into a report.
class DiffReport {
 public:
  DiffReport(const ModelPair& pair, const DiffSide& a, const DiffSide& b, DiffResult& out)
      : pair_(pair), a_(a), b_(b), out_(out) {}

  void add_unlike() {
    for (const UnlikeLeaves& item : pair_.unlike) {
      const bool shapes = item.left.shape == item.right.shape;
      add({shapes ? TensorDiff::Kind::dtype : TensorDiff::Kind::shape,
           item.left.name,
           form_of(item.left),
           form_of(item.right),
           {},
           {}});
    }
    for (const Leaf& leaf : pair_.only_left)
      add({TensorDiff::Kind::only_a, leaf.name, form_of(leaf), {}, {}, {}});
    for (const Leaf& leaf : pair_.only_right)
      add({TensorDiff::Kind::only_b, leaf.name, {}, form_of(leaf), {}, {}});
  }

  void add_compared(CompareResult found) {
    const std::vector<Leaf>& leaves = pair_.left->leaves;
    out_.compared_tensors = leaves.size();
    out_.compared_bytes = found.compared_bytes;
    auto next = found.leaves.begin();
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf) {
      TensorDiff item;
      item.name = leaves[leaf].name;
      item.a = {pair_.dtypes[leaf].left, leaves[leaf].shape};
      item.b = {pair_.dtypes[leaf].right, leaves[leaf].shape};
      if (next != found.leaves.end() && next->leaf == leaf) add_found(*next++, item);
      add(std::move(item));
    }
    std::ranges::sort(out_.tensors, {}, &TensorDiff::name);
  }

 private:
  void add_found(LeafDifference& found, TensorDiff& item) {
    item.kind = found.damage.empty() ? TensorDiff::Kind::values : TensorDiff::Kind::damaged;
    item.damage = std::move(found.damage);
    if (found.elements.count == 0) return;
    const Leaf& leaf = pair_.left->leaves[found.leaf];
    ValueDifferences values;
    values.count = found.elements.count;
    values.largest_absolute = found.elements.largest_absolute;
    values.largest_ulps = found.elements.largest_ulps;
    values.a_nans = found.elements.left_nans;
    values.b_nans = found.elements.right_nans;
    values.by_ulps = found.elements.by_ulps;
    values.first = leaf.shape;
    std::uint64_t rest = found.elements.first;
    for (std::size_t d = leaf.shape.rank(); d-- > 0;) {
      values.first[d] = rest % leaf.shape[d];
      rest /= leaf.shape[d];
    }
    values.a = element_place(*pair_.left, found.leaf, found.elements.first, a_.text);
    values.b = element_place(*pair_.right, found.leaf, found.elements.first, b_.text);
    values.a.value = element_text(leaf.dtype, found.left);
    values.b.value = element_text(leaf.dtype, found.right);
    out_.differing_elements += values.count;
    item.values = std::move(values);
  }

  void add(TensorDiff item) {
    if (item.kind != TensorDiff::Kind::equal) ++out_.differing_tensors;
    out_.tensors.push_back(std::move(item));
  }

  const ModelPair& pair_;
  const DiffSide& a_;
  const DiffSide& b_;
  DiffResult& out_;
};

void check_any(const DiffOptions& options, const DiffResult& found) {
  const bool filtered = !options.include.empty() || !options.exclude.empty();
  const bool any = !found.tensors.empty() || found.compared_objects > 0 || !found.structure.empty();
  if (any || !filtered) return;
  throw Error(ErrorCode::not_found, "no array of either checkpoint matches")
      .hint("a glob must match a whole name, as hfshard inspect prints it; * matches anything");
}

// Returns both sides. Each side that has steps but doesn't name one gets `step`.
std::pair<SourceName, SourceName> with_step(SourceName a, SourceName b,
                                            std::optional<std::uint64_t> step) {
  if (!step) return {std::move(a), std::move(b)};
  bool any = false;
  for (SourceName* side : {&a, &b}) {
    if (!has_steps(find_place(without_notes(*side)))) continue;
    any = true;
    if (!side->step) side->step = step;
  }
  if (!any) refuse_step(a.text, step, "leave out --step");
  return {std::move(a), std::move(b)};
}

// Returns a model's config.json, or the one that hfshard recorded next to a tree. Null if missing.
Json config_of(const DiffSide& side) {
  if (const std::string& text = side.catalog().config_text; !text.empty())
    return parse_json(text, config_path(side.text));
  const auto recorded = side.is_model ? std::nullopt : recorded_at(side.place);
  if (!recorded || recorded->model_files.empty()) return {};
  const std::string path = config_path(recorded->model_files);
  return parse_json(read_file(path), path);
}

// Names the keys of config.json that differ between two checkpoints. They aren't arrays, so the
// checkpoints can still be equal.
void note_configs(const DiffSide& a, const DiffSide& b, DiffResult& out) {
  const std::vector<std::string> keys = differing_keys(config_of(a), config_of(b));
  if (keys.empty()) return;
  out.notes.push_back(
      fmt::format("not an array, but different: config.json ({})", quoted_list(keys)));
}

// Returns the directory with a model's other files, if it is a local one.
std::optional<std::string> model_files_of(const DiffSide& side) {
  if (side.is_model) return model_directory(side.place).local_path();
  const auto recorded = recorded_at(side.place);
  if (!recorded || recorded->model_files.empty()) return std::nullopt;
  return recorded->model_files;
}

// Names tokenizers and the like that differ.
void note_files(const DiffSide& a, const DiffSide& b, DiffResult& out) {
  const auto of_a = model_files_of(a);
  const auto of_b = model_files_of(b);
  if (!of_a || !of_b || *of_a == *of_b) return;
  std::set<std::string> names;
  for (const std::string& directory : {*of_a, *of_b}) {
    for (std::string& name : model_side_files(directory)) names.insert(std::move(name));
  }
  std::vector<std::string> differ;
  for (const std::string& name : names) {
    const std::string left = join_path(*of_a, name);
    const std::string right = join_path(*of_b, name);
    const bool same = exists(left) && exists(right) && read_file(left) == read_file(right);
    if (!same && name != "config.json") differ.push_back(name);
  }
  if (differ.empty()) return;
  out.notes.push_back(fmt::format("no arrays, but different: {}", quoted_list(differ)));
}

// Compares two opened trees, or models. Returns the other trees of both steps.
std::vector<std::string> compare_sides(const DiffSide& a, const DiffSide& b,
                                       const DiffOptions& options, const RunOptions& run,
                                       Reporter& reporter, DiffResult& out) {
  add_notes_of(a, out);
  add_notes_of(b, out);
  SidesTogether together = bring_together(a, b, options);
  out.through = std::move(together.through);
  std::ranges::move(together.notes, std::back_inserter(out.notes));
  const auto wanted = [&](std::string_view name) { return is_wanted(options, name); };
  std::vector<std::string> others = diff_objects(a, b, wanted, run, out);
  note_configs(a, b, out);
  note_files(a, b, out);
  const ModelPair pair =
      pair_models(std::move(together.a), std::move(together.b), options.dtype_aware, wanted);
  DiffReport report(pair, a, b, out);
  report.add_unlike();
  const PairLayout layout(pair.left, pair.right, limits_of(run));
  report.add_compared(compare_pair(layout, options.tolerance, run, reporter));
  return others;
}

// Compares another tree of the steps. Its names follow its path in the step.
void compare_other_tree(const DiffSide& step_a, const DiffSide& step_b, const std::string& tree,
                        const DiffOptions& options, const RunOptions& run, Reporter& reporter,
                        DiffResult& out) {
  DiffResult found;
  try {
    const DiffSide a = open_other_tree(step_a, tree, options);
    const DiffSide b = open_other_tree(step_b, tree, options);
    out.a.tensors += a.catalog().tensors.size();
    out.b.tensors += b.catalog().tensors.size();
    compare_sides(a, b, options, run, reporter, found);
  } catch (const Error& error) {  // nobody asked for this tree
    if (error.code() != ErrorCode::unsupported) throw;
    out.notes.push_back(fmt::format("not compared: {}: {}", tree, error.sentence()));
    return;
  }
  const auto below = [&](const std::string& name) {
    return name.empty() ? tree : join_path(tree, name);
  };
  for (TensorDiff& item : found.tensors) {
    item.name = below(item.name);
    out.tensors.push_back(std::move(item));
  }
  for (StructureDiff& item : found.structure) {
    item.name = below(item.name);
    out.structure.push_back(std::move(item));
  }
  for (const std::string& note : found.notes)
    out.notes.push_back(fmt::format("{}: {}", tree, note));
  out.compared_objects += found.compared_objects;
  out.compared_tensors += found.compared_tensors;
  out.compared_bytes += found.compared_bytes;
  out.differing_tensors += found.differing_tensors;
  out.differing_elements += found.differing_elements;
}

}  // namespace

std::string_view to_string(TensorDiff::Kind kind) noexcept {
  constexpr std::array<std::string_view, 7> kNames{"equal", "values", "damaged", "dtype",
                                                   "shape", "only_a", "only_b"};
  return kNames[static_cast<std::size_t>(kind)];
}

DiffResult diff(const SourceName& a, const SourceName& b, const DiffOptions& options,
                const RunOptions& run, Reporter& reporter) {
  const auto [named_a, named_b] = with_step(a, b, options.step);
  DiffSide found_a = find_side(named_a, reporter);
  const bool same = named_a.text == named_b.text && named_a.revision == named_b.revision;
  DiffSide found_b = find_side(same ? without_notes(named_b) : named_b, reporter);
  const bool is_part = !options.include.empty() || !options.exclude.empty();
  check_header_size(std::array{found_a.place, found_b.place}, is_part, run);
  const DiffSide side_a = open_side(std::move(found_a), named_a, named_b, options);
  const DiffSide side_b = open_side(std::move(found_b), named_b, named_a, options);
  if (!options.items.empty() && !side_a.other_item && !side_b.other_item)
    throw Error(ErrorCode::usage,
                "--items selects an item of a step, and neither checkpoint is a step")
        .hint("leave out --items");
  DiffResult out;
  out.a = described(side_a);
  out.b = described(side_b);
  for (const std::string& tree : compare_sides(side_a, side_b, options, run, reporter, out))
    compare_other_tree(side_a, side_b, tree, options, run, reporter, out);
  check_any(options, out);
  std::ranges::stable_sort(out.structure, {}, &StructureDiff::name);
  return out;
}

}  // namespace hfshard
