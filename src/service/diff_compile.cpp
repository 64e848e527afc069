#include "service/diff_compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"
#include "service/parts.h"
#include "service/recorded.h"
#include "service/source.h"
#include "service/tree_names.h"

#include "hfshard/error.h"

namespace hfshard {

namespace {

// Returns the tensors for which compiling a model failed: those that no rule takes, or the one
// whose values a tree has no place for.
std::vector<std::string> without_place(const Error& error, const Catalog& catalog,
                                       const MappingOptions& mapping) {
  std::vector<std::string> out;
  if (error.code() != ErrorCode::bad_input || error.tensor().empty()) return out;
  if (left_out(mapping, error.tensor())) return out;
  if (error.hint_text().find(kDropFlag) != std::string::npos) return {error.tensor()};
  for (const CheckFinding& finding : check_names(catalog, mapping).findings) {
    if (finding.rule.empty() && !left_out(mapping, finding.tensor)) out.push_back(finding.tensor);
  }
  if (std::ranges::find(out, error.tensor()) == out.end()) out.clear();
  return out;
}

// Returns the error with options that diff has.
Error for_diff(const Error& error, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string flags;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    flags += fmt::format(" --exclude {}", shell_word(glob_of(names[i])));
  if (names.size() > kShown) flags += fmt::format(" and {} more", names.size() - kShown);
  Error out(error.code(), error.sentence());  // its own hint is for a conversion
  out.in_file(error.file()).in_tensor(error.tensor()).by_rule(error.rule());
  return out.hint(
      fmt::format("pass{} to compare without {}", flags, names.size() == 1 ? "it" : "them"));
}

}  // namespace

CompiledModel compile_tree(const DiffSide& model, const MappingOptions& mapping,
                           const DiffOptions& options, const LeftOutBefore& before) {
  std::optional<Catalog> with_config;
  if (options.config_text) {
    with_config = model.catalog();
    with_config->config_text = *options.config_text;
  }
  const Catalog& catalog = with_config ? *with_config : model.catalog();
  MappingOptions asked;
  asked.include = options.include;
  asked.exclude = options.exclude;
  MappingOptions kept = mapping;
  while (true) {
    try {
      return compile_source(catalog, model.place, kept);
    } catch (const Error& error) {
      std::vector<std::string> names = without_place(error, catalog, kept);
      if (names.empty()) throw;
      const std::size_t count = kept.exclude.size();
      std::erase_if(names, [&](const std::string& name) {
        if (!left_out(asked, name) && !(before && before(name))) return false;
        kept.exclude.push_back(glob_of(name));
        return true;
      });
      // Otherwise the next error is about the remaining tensors.
      if (kept.exclude.size() == count) throw for_diff(error, names);
    }
  }
}

std::uint64_t shared_names(const std::vector<Leaf>& leaves, const Catalog& catalog) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      leaves, [&](const Leaf& leaf) { return catalog.find(leaf.name).has_value(); }));
}

namespace {

// Returns the filter for what the conversion to a tree left out or dropped, by its record.
LeftOutBefore left_out_before(const DiffSide& tree) {
  const auto recorded = recorded_mapping(tree.place);
  if (!recorded) return {};
  return [mapping = *recorded](std::string_view name) {
    return left_out(mapping, name).has_value() || accepted_loss(mapping, name) != nullptr;
  };
}

// Compiles a model in the scheme whose names a tree has.
class NearestTree {
 public:
  NearestTree(const DiffSide& model, const DiffSide& tree, const DiffOptions& options)
      : model_(model), tree_(tree), options_(options) {}

  // Returns whether the tree has all leaves of this scheme, in one of its forms.
  bool look(const std::string& scheme, bool stacked) {
    MappingOptions mapping;
    mapping.scheme = scheme;
    mapping.stacked = stacked;
    const std::vector<Bindings::Options> forms = forms_of(scheme);
    return std::any_of(forms.begin(), forms.end(), [&](const Bindings::Options& form) {
      mapping.options = form;
      if (!look(mapping)) return false;
      add_parts(mapping, [&](const MappingOptions& more) {
        return most_ < tree_.catalog().tensors.size() && look(more);
      });
      return true;
    });
  }

  CompiledModel take() && {
    if (!best_) throw Error(*refused_);
    return *std::move(best_);
  }

 private:
  bool look(MappingOptions mapping) {
    mapping.flat_names = true;
    try {
      CompiledModel found = compile_tree(model_, mapping, options_, left_out_before(tree_));
      const std::uint64_t shared = shared_names(found.leaves, tree_.catalog());
      const bool all = shared == found.leaves.size();
      if (found.keeps_codes && !all) return false;  // the tree is another one
      const bool fewer = best_ && found.leaves.size() < best_->leaves.size();
      if (!best_ || shared > most_ || (shared == most_ && fewer)) best_ = std::move(found);
      most_ = std::max(most_, shared);
      return all;
    } catch (const Error& error) {  // an error if every scheme throws one
      if (error.code() == ErrorCode::internal) throw;
      if (!refused_ && !keeps_codes(mapping.options)) refused_ = error;
      return false;
    }
  }

  std::optional<MappingTable> table_of_model() const {
    const std::string& text =
        options_.config_text ? *options_.config_text : model_.catalog().config_text;
    const FamilyFile* family =
        text.empty() ? nullptr : find_family(parse_json(text, "config.json"));
    if (family == nullptr) return std::nullopt;
    return load_table(*family);
  }

  // Returns the forms in which a tree of the model can have been made in a scheme.
  std::vector<Bindings::Options> forms_of(const std::string& scheme) const {
    const std::optional<MappingTable> table = table_of_model();
    const Scheme* known = table ? table->scheme(scheme) : nullptr;
    return known == nullptr ? std::vector<Bindings::Options>{{}} : for_each_form(*known, {});
  }

  const DiffSide& model_;
  const DiffSide& tree_;
  const DiffOptions& options_;
  std::optional<CompiledModel> best_;
  std::optional<Error> refused_;
  std::uint64_t most_ = 0;
};

}  // namespace

CompiledModel compile_as(const DiffSide& model, const DiffSide& tree,
                         const std::optional<MappingOptions>& known, const DiffOptions& options) {
  if (known) return compile_tree(model, *known, options, left_out_before(tree));
  // Otherwise uses the scheme and layout that match the most names. Usual ones come first. The tree
  // can also have the names of the model's files if the model has those of a dialect.
  NearestTree nearest(model, tree, options);
  if (nearest.look(std::string(kNamesScheme), false)) return std::move(nearest).take();
  for (const SchemeSummary& scheme : known_schemes()) {
    if (scheme.name == kNamesScheme) continue;
    if (scheme.stacks && nearest.look(scheme.name, true)) break;
    if (nearest.look(scheme.name, false)) break;
  }
  return std::move(nearest).take();
}

namespace {

std::map<std::string_view, const Transfer*> by_leaf(const CompiledModel& model) {
  std::map<std::string_view, const Transfer*> out;
  for (const Transfer& transfer : model.transfers)
    out.emplace(model.leaves[transfer.target].name, &transfer);
  return out;
}

void take_stored(CompiledModel& model) {
  for (Transfer& transfer : model.transfers) {
    if (transfer.value.empty()) continue;
    transfer.value = {};
    model.leaves[transfer.target].dtype = transfer.source_dtype;
  }
}

// Takes the stored values of both sides instead of those that the scheme computes, where it
// computes the same from both. Computed values are rounded, and can be equal where stored ones
// aren't.
void compare_stored(SidesTogether& sides) {
  const auto of_a = by_leaf(sides.a.model);
  const auto of_b = by_leaf(sides.b.model);
  const bool alike = std::ranges::all_of(of_a, [&](const auto& item) {
    const auto other = of_b.find(item.first);
    const Transfer& transfer = *item.second;
    return other == of_b.end() ||
           (transfer.value == other->second->value && !transfer.decode && !other->second->decode);
  });
  if (!alike) return;
  take_stored(sides.a.model);
  take_stored(sides.b.model);
}

}  // namespace

SidesTogether with_parts(const std::function<SidesTogether(const MappingOptions&)>& compile) {
  MappingOptions mapping;
  mapping.flat_names = true;
  SidesTogether out = compile(mapping);
  add_parts(mapping, [&](const MappingOptions& more) {
    SidesTogether made = compile(more);
    if (made.a.model.leaves.size() <= out.a.model.leaves.size() ||
        made.b.model.leaves.size() <= out.b.model.leaves.size())
      return false;
    out = std::move(made);
    return true;
  });
  compare_stored(out);
  out.through = fmt::format("both are converted to scheme {}", mapping.scheme);
  return out;
}

namespace {

// Returns the mappings that can have made a tree with these names.
std::vector<MappingOptions> mappings_of_names(const Catalog& tree) {
  std::vector<MappingOptions> out;
  for (const SchemeSummary& scheme : schemes_of_names(tree)) {
    MappingOptions mapping;
    mapping.scheme = scheme.name;
    for (const bool stacked : {true, false}) {
      mapping.stacked = stacked;
      if (!stacked || scheme.stacks) out.push_back(mapping);
    }
  }
  return out;
}

}  // namespace

std::optional<ModelSide> in_layout_of(const Catalog& wanted,
                                      const std::optional<MappingOptions>& known,
                                      const DiffSide& tree, const TreeOptions& asked) {
  PlanOptions options;
  options.tree = asked;
  const bool coded = std::ranges::any_of(tree.catalog().tensors, holds_codes);
  const auto open = [&](const MappingOptions& mapping) -> std::optional<ModelSide> {
    options.mapping = mapping;
    options.mapping.flat_names = true;
    options.mapping.keep_dtype = !coded;  // codes are decoded
    try {
      OpenedSource opened = open_source_model(tree.place, options);
      if (shared_names(opened.model.leaves, wanted) == opened.model.leaves.size())
        return ModelSide{std::move(opened.checkpoint), std::move(opened.model)};
    } catch (const Error& error) {  // the tree can't have this layout
      if (error.code() == ErrorCode::internal) throw;
    }
    return std::nullopt;
  };
  if (known) return open(*known);
  for (const MappingOptions& mapping : mappings_of_names(wanted)) {
    auto out = open(mapping);
    if (!out) continue;
    add_parts(mapping, [&](const MappingOptions& more) {
      if (out->model.leaves.size() == wanted.tensors.size()) return false;
      auto made = open(more);
      if (!made || made->model.leaves.size() <= out->model.leaves.size()) return false;
      out = std::move(made);
      return true;
    });
    return out;
  }
  return std::nullopt;
}

}  // namespace hfshard
