#include "service/diff_trees.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plan/compile/compile_model.h"
#include "service/diff_compile.h"
#include "service/diff_parts.h"
#include "service/recorded.h"
#include "service/source.h"

namespace hfshard {
namespace {

// The model that a tree becomes by export, with the tree's own values.
struct ModelOfTree {
  ModelSide side;
  bool has_computed = false;  // the mapping computed some of the tree's values
};

ModelOfTree back_of(const DiffSide& tree, const TreeOptions& asked) {
  PlanOptions options;
  options.mapping = names_options();
  options.mapping.include = {"*"};  // missing tensors are differences
  options.tree = asked;
  OpenedSource opened = open_source_model(tree.place, options);
  ModelOfTree out;
  for (Transfer& transfer : opened.model.transfers) {
    out.has_computed = out.has_computed || !transfer.value.empty();
    transfer.value = {};
    opened.model.leaves[transfer.target].dtype = transfer.source_dtype;
  }
  out.side = {std::move(opened.checkpoint), std::move(opened.model)};
  return out;
}

// Adds what was left out of a tree to the notes.
void add_tree_notes(const ModelSide& side, const DiffSide& tree, std::string_view which,
                    std::string_view made, SidesTogether& out) {
  add_notes(*side.checkpoint, tree, which, out);
  note_drops(side.model, side.checkpoint->catalog(), which, made, out);
}

// Returns whether to give both the layout of A (true) or of B, in the order of preference.
std::vector<bool> layouts_to_try(const ModelOfTree& a, const ModelOfTree& b) {
  if (a.has_computed != b.has_computed) return {a.has_computed};
  if (!each_has_own(a.side.model, b.side.model)) return {};
  return {true, false};
}

// Compares a tree that has computed values with one that hasn't. Rounding can't be undone, so the
// other becomes a tree with the first one's layout. Also serves for two that become models with
// other names. Returns nothing if it can't.
std::optional<SidesTogether> computed_and_other(bool computed_is_a, const DiffSide& computed,
                                                const ModelSide& back, const DiffSide& other,
                                                const TreeOptions& asked) {
  const std::string_view which = computed_is_a ? "A" : "B";
  const std::string_view of_other = computed_is_a ? "B" : "A";
  const Catalog& names = back.checkpoint->catalog();
  auto made = in_layout_of(names, known_mapping(computed), other, asked);
  if (!made) return std::nullopt;
  SidesTogether out;
  ModelSide own{back.checkpoint, compile_same(names, names_options(), {})};
  add_tree_notes(*made, other, of_other, "tree", out);
  add_notes(*back.checkpoint, computed, which, out);
  leave_out_others(made->model.leaves, which, own.model, out);
  out.through = fmt::format("{} is converted to the layout of {}", of_other, which);
  set_sides(computed_is_a, std::move(own), *std::move(made), out);
  return out;
}

}  // namespace

std::optional<SidesTogether> in_main_scheme(const DiffSide& a, const TreeOptions& asked_a,
                                            const DiffSide& b, const TreeOptions& asked_b) {
  const auto open = [](const DiffSide& side, const TreeOptions& asked,
                       const MappingOptions& mapping, std::string_view which, SidesTogether& out) {
    PlanOptions options;
    options.mapping = mapping;
    options.tree = asked;
    OpenedSource opened = open_source_model(side.place, options);
    ModelSide made{std::move(opened.checkpoint), std::move(opened.model)};
    add_tree_notes(made, side, which, "tree", out);
    return made;
  };
  try {
    SidesTogether out = with_parts([&](const MappingOptions& mapping) {
      SidesTogether made;
      made.a = open(a, asked_a, mapping, "A", made);
      made.b = open(b, asked_b, mapping, "B", made);
      return made;
    });
    if (!each_has_own(out.a.model, out.b.model)) return out;
  } catch (const Error& error) {  // the scheme doesn't have the model, or a tensor is missing
    if (error.code() == ErrorCode::internal) throw;
  }
  return std::nullopt;
}

namespace {

// A tree, the model that it becomes, and the options with which it was opened.
struct OpenedTree {
  const DiffSide& tree;
  ModelOfTree model;
  TreeOptions asked;
};

// Compares two trees in one layout, if their models' names or values don't agree.
std::optional<SidesTogether> in_one_layout(const OpenedTree& a, const OpenedTree& b) {
  for (const bool of_a : layouts_to_try(a.model, b.model)) {
    const OpenedTree& kept = of_a ? a : b;
    const OpenedTree& other = of_a ? b : a;
    if (auto out = computed_and_other(of_a, kept.tree, kept.model.side, other.tree, other.asked))
      return out;
  }
  if (!each_has_own(a.model.side.model, b.model.side.model)) return std::nullopt;
  return in_main_scheme(a.tree, a.asked, b.tree, b.asked);
}

}  // namespace

SidesTogether two_trees(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  const TreeOptions asked = tree_options(options, {});
  const bool knows_a = recorded_mapping(a.place).has_value();
  const bool knows_b = recorded_mapping(b.place).has_value();
  const bool b_tells = !knows_a && knows_b;
  ModelOfTree told = back_of(b_tells ? b : a, asked);
  const TreeOptions as_told = tree_options(options, told.side.checkpoint->catalog().config_text);
  ModelOfTree other = back_of(b_tells ? a : b, knows_a && knows_b ? asked : as_told);
  OpenedTree left{a, std::move(b_tells ? other : told), knows_a ? asked : as_told};
  OpenedTree right{b, std::move(b_tells ? told : other), knows_b ? asked : as_told};
  if (auto out = in_one_layout(left, right)) return *std::move(out);
  SidesTogether out;
  out.through = "both are converted to Hugging Face models";
  out.a = std::move(left.model.side);
  out.b = std::move(right.model.side);
  decode_like(out.b.model, "A", config_of_codes(a, options), out.a, out);
  decode_like(out.a.model, "B", config_of_codes(b, options), out.b, out);
  add_tree_notes(out.a, a, "A", "model", out);
  add_tree_notes(out.b, b, "B", "model", out);
  return out;
}

}  // namespace hfshard
