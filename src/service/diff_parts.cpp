#include "service/diff_parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "service/diff_compile.h"
#include "service/own_names.h"
#include "service/recorded.h"
#include "service/recorded_model.h"

#include "hfshard/error.h"

namespace hfshard {

MappingOptions names_options() {
  MappingOptions out;
  out.scheme = kNamesScheme;
  out.flat_names = true;
  return out;
}

TreeOptions tree_options(const DiffOptions& options, const std::string& config) {
  TreeOptions out;
  out.config_text = options.config_text;
  out.config_name = options.config_name;
  if (out.config_text || config.empty()) return out;
  out.config_text = config;
  out.config_name = "config.json";
  return out;
}

ModelSide by_names(const DiffSide& side) {
  return {side.checkpoint, compile_same(side.catalog(), names_options(), {})};
}

std::optional<CompiledModel> decoded_names(const Catalog& catalog, const Catalog& other) {
  MappingOptions options = names_options();
  options.dtype = DType::bf16;
  CompiledModel out;
  try {
    out = compile_model(catalog, options);
  } catch (const Error& error) {  // another kind of codes or dtypes: other ways exist
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
  for (const Transfer& transfer : out.transfers) {
    Leaf& leaf = out.leaves[transfer.target];
    const auto found = other.find(leaf.name);
    if (!transfer.decode) {
      leaf.dtype = transfer.source_dtype;
    } else if (found && narrower_dtype(other.tensors[*found].dtype, DType::bf16)) {
      leaf.dtype = other.tensors[*found].dtype;
    }
  }
  return out;
}

std::string config_of_codes(const DiffSide& side, const DiffOptions& options) {
  if (options.config_text) return *options.config_text;
  if (!side.catalog().config_text.empty()) return side.catalog().config_text;
  try {
    const auto recorded = recorded_at(side.place);
    if (recorded && !recorded->model_files.empty()) return recorded_config(*recorded);
  } catch (const Error& error) {  // the model is no longer there, or another one
    if (error.code() == ErrorCode::internal) throw;
  }
  return {};
}

void decode_like(const CompiledModel& other, std::string_view which, const std::string& config,
                 ModelSide& side, SidesTogether& out) {
  const std::vector<Leaf>& wanted = other.leaves;
  const auto in = [](const std::vector<Leaf>& leaves) {
    return [&](const Leaf& leaf) {
      return std::ranges::binary_search(leaves, leaf.name, {}, &Leaf::name);
    };
  };
  if (std::ranges::all_of(side.model.leaves, in(wanted))) return;
  Catalog codes = side.checkpoint->catalog();
  codes.config_text = config;
  std::optional<CompiledModel> decoded;
  try {
    decoded = decoded_names(codes, tensors_of({wanted.begin(), wanted.end()}, {}, codes));
  } catch (const Error& error) {  // codes that can't be decoded are compared as they are
    if (error.code() == ErrorCode::internal) throw;
  }
  if (!decoded || !was_coded(*decoded) || !std::ranges::all_of(wanted, in(decoded->leaves))) return;
  side.model = *std::move(decoded);
  out.notes.push_back(fmt::format("{} is decoded", which));
}

std::uint64_t shared_names(const Catalog& a, const Catalog& b) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      a.tensors, [&](const TensorInfo& info) { return b.find(info.name).has_value(); }));
}

std::size_t shared_leaves(const CompiledModel& a, const CompiledModel& b) {
  return static_cast<std::size_t>(std::ranges::count_if(a.leaves, [&](const Leaf& leaf) {
    return std::ranges::binary_search(b.leaves, leaf.name, {}, &Leaf::name);
  }));
}

bool each_has_own(const CompiledModel& a, const CompiledModel& b) {
  return shared_leaves(a, b) < std::min(a.leaves.size(), b.leaves.size());
}

std::optional<MappingOptions> known_mapping(const DiffSide& tree) {
  auto out = recorded_mapping(tree.place);
  if (!out) return out;
  if (takes_prefix_off(*out)) out->prefix.clear();
  if (!has_rules(*out) && out->prefix.empty()) return std::nullopt;
  out->dtype.reset();
  out->keep_dtype = false;
  out->casts.clear();
  out->include.clear();
  out->exclude.clear();
  out->drop.clear();
  out->flat_names = true;
  return out;
}

void leave_out_others(const std::vector<Leaf>& parameters, std::string_view which,
                      CompiledModel& tree, SidesTogether& out) {
  std::set<std::string> keys;
  for (const Leaf& leaf : parameters) keys.insert(first_key(leaf.name));
  const std::string step = tree_extras(MappingOptions().scheme).step;
  std::uint64_t others = 0;
  keep_leaves(tree, [&](const Leaf& leaf) {
    const bool is_parameter = keys.contains(first_key(leaf.name)) && leaf.name != step;
    if (!is_parameter && leaf.name != step) ++others;
    return is_parameter;
  });
  if (others == 0) return;
  out.notes.push_back(
      fmt::format("not compared, because they aren't parameters of the model: {} {} of {}", others,
                  others == 1 ? "array" : "arrays", which));
}

void note_drops(const CompiledModel& model, const Catalog& catalog, std::string_view which,
                std::string_view made, SidesTogether& out) {
  std::set<std::uint32_t> dropped;
  std::vector<std::string> excluded;
  for (const Drop& drop : model.drops) {
    if (model.rules[drop.rule] == "--exclude") {
      excluded.push_back(catalog.tensors[drop.source].name);
    } else {
      dropped.insert(drop.source);
    }
  }
  if (!excluded.empty()) {
    out.notes.push_back(
        fmt::format("not compared, because the conversion or --exclude leaves {} "
                    "out: {} of {}",
                    excluded.size() == 1 ? "it" : "them", quoted_list(excluded), which));
  }
  if (dropped.empty()) return;
  out.notes.push_back(fmt::format(
      "not compared in full, because the {} has no place for them: {} {} of {} ({}{})", made,
      dropped.size(), dropped.size() == 1 ? catalog.wording.array : catalog.wording.arrays, which,
      catalog.tensors[*dropped.begin()].name, dropped.size() > 1 ? ", ..." : ""));
}

void add_notes(const Checkpoint& renamed, const DiffSide& tree, std::string_view which,
               SidesTogether& out) {
  const std::vector<std::string>& known = tree.catalog().notes;
  for (const std::string& note : renamed.catalog().notes) {
    if (std::ranges::find(known, note) == known.end())
      out.notes.push_back(fmt::format("{}: {}", which, note));
  }
}

void set_sides(bool first_is_a, ModelSide first, ModelSide second, SidesTogether& out) {
  if (!first_is_a) std::swap(first, second);
  out.a = std::move(first);
  out.b = std::move(second);
}

}  // namespace hfshard
