// Compiles from one scheme's leaves to another's: back to the model's tensors, and on from there,
// in one step. The run never makes the model's tensors.

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/compose.h"
#include "ops/source_rows.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

double apply(const Value& value, double scalar) {
  return scalar * double{value.mul.value_or(1.0F)} + double{value.add.value_or(0.0F)};
}

// The part of a leaf that comes from one array, through one tensor.
struct Part {
  std::uint32_t array = 0;
  IndexMap map;
  Value value;
  bool copy = false;
  bool computed = false;  // by `forward`, and not undone
  bool goes_like(const Part& other) const {
    return map.digits == other.map.digits && value == other.value && copy == other.copy;
  }
};

// Lists a model's items by the leaf that they write.
template <typename Item>
std::vector<std::vector<std::uint32_t>> by_target(const std::vector<Item>& items,
                                                  std::size_t leaves) {
  std::vector<std::vector<std::uint32_t>> out(leaves);
  for (std::uint32_t i = 0; i < items.size(); ++i) out[items[i].target].push_back(i);
  return out;
}

// Returns the row-major cells of one step along an axis.
std::uint64_t cells_within(std::span<const Loop> loops, std::size_t axis) {
  std::uint64_t out = 1;
  for (std::size_t k = axis + 1; k < loops.size(); ++k) out *= loops[k].extent;
  return out;
}

class Composer {
 public:
  Composer(const CompiledModel& back, CompiledModel forward, const Catalog& tree,
           const MappingOptions& options)
      : back_(back),
        forward_(std::move(forward)),
        tree_(tree),
        builder_(tree, options),
        transfers_of_(by_target(back.transfers, back.leaves.size())),
        fills_of_(by_target(back.fills, back.leaves.size())),
        options_(options) {}

  CompiledModel compose_all() {
    for (const Fill& fill : forward_.fills) {
      Fill kept = fill;
      kept.rule = rule(forward_, fill.rule);
      out().fills.push_back(std::move(kept));
    }
    for (const Transfer& transfer : forward_.transfers) add_transfer(transfer);
    for (const Drop& drop : back_.drops) {
      Drop kept = drop;
      kept.rule = rule(back_, drop.rule);
      out().drops.push_back(std::move(kept));
    }
    for (const Drop& drop : forward_.drops) add_drop(drop);
    take_claims();
    take_words();
    return builder_.finish();
  }

 private:
  CompiledModel& out() { return builder_.model(); }
  std::uint32_t rule(const CompiledModel& of, std::uint32_t number) {
    return builder_.rule(of.rules[number]);
  }

  void take_words() {
    CompiledModel& model = out();
    model.family = forward_.family;
    model.scheme = forward_.scheme;
    model.stacked = forward_.stacked;
    model.leaves = std::move(forward_.leaves);
    model.through = tensors_of_config();
    model.axis_rules = std::move(forward_.axis_rules);
    model.model_names = std::move(forward_.model_names);
    model.load_words = std::move(forward_.load_words);
    model.load_note = std::move(forward_.load_note);
    model.warnings = std::move(forward_.warnings);
    model.config_text = std::move(forward_.config_text);
    if (model.config_text.empty()) model.config_text = back_.config_text;
    for (const std::string& note : back_.notes) {
      if (computed_ || !note.starts_with(kNotExact)) model.notes.push_back(note);
    }
    model.notes.insert(model.notes.end(), forward_.notes.begin(), forward_.notes.end());
  }

  // Returns the array that stores a tensor as the model's files do.
  std::uint32_t stored_as_it_is(std::uint32_t tensor) const {
    const Leaf& leaf = back_.leaves[tensor];
    const std::vector<std::uint32_t>& parts = transfers_of_[tensor];
    if (parts.size() == 1 && fills_of_[tensor].empty()) {
      const Transfer& from = back_.transfers[parts.front()];
      const TensorInfo& array = tree_.tensors[from.sources.front()];
      if (is_one_array(from, leaf.shape) && array.dtype == leaf.dtype && array.shape == leaf.shape)
        return from.sources.front();
    }
    refuse_codes(leaf.name);
  }

  [[noreturn]] void refuse_codes(const std::string& name) const {
    throw Error(ErrorCode::unsupported,
                "the checkpoint has codes in other shapes than the model's files, and hfshard "
                "can't decode them for another scheme")
        .in_file(tree_.location)
        .in_tensor(name)
        .hint("run hfshard convert --to safetensors first, and convert its output");
  }

  // Adds a rule that decodes. Decoders need codes and scales as the model's files have them.
  void add_decoding(const Transfer& transfer) {
    Transfer made = transfer;
    made.rule = rule(forward_, transfer.rule);
    for (std::uint32_t& source : made.sources) source = stored_as_it_is(source);
    Decode decode = *transfer.decode;
    for (auto* list : {&decode.scales, &decode.zeros, &decode.factors}) {
      for (std::uint32_t& tensor : *list) tensor = stored_as_it_is(tensor);
    }
    made.decode = std::make_shared<const Decode>(std::move(decode));
    out().transfers.push_back(std::move(made));
  }

  // Returns the tensors of the leaves' model, without removed layers.
  std::vector<Array> tensors_of_config() const {
    std::vector<bool> cut(back_.leaves.size(), false);
    for (const Drop& drop : forward_.drops)
      cut[drop.source] = cut[drop.source] || forward_.rules[drop.rule] == kNumLayers;
    std::vector<Array> kept;
    for (std::size_t i = 0; i < cut.size(); ++i) {
      if (!cut[i]) kept.push_back(back_.leaves[i]);
    }
    return kept;
  }

  void add_transfer(const Transfer& transfer) {
    if (transfer.decode) {
      add_decoding(transfer);
      return;
    }
    std::vector<std::vector<Part>> parts;  // per source of the rule
    parts.reserve(transfer.sources.size());
    for (std::uint64_t n = 0; n < transfer.sources.size(); ++n)
      parts.push_back(parts_of(transfer, n));
    const auto like_first = [&](const std::vector<Part>& list) {
      return list.size() == parts.front().size();
    };
    if (!std::ranges::all_of(parts, like_first)) {
      for (const std::vector<Part>& list : parts) {
        for (const Part& part : list) add(transfer, {}, {&part, 1});
      }
      return;
    }
    std::vector<Part> column(parts.size());
    for (std::size_t p = 0; p < parts.front().size(); ++p) {
      for (std::size_t n = 0; n < parts.size(); ++n) column[n] = std::move(parts[n][p]);
      add_folded(transfer, column);
    }
  }

  // Returns the parts of a rule's source. Adds fills for regions that were dropped from it before.
  std::vector<Part> parts_of(const Transfer& transfer, std::uint64_t number) {
    const std::uint32_t tensor = transfer.sources[number];
    IndexMap onward = transfer.map;
    onward.dst_base += loop_offset(transfer, number);
    const Shape& shape = forward_.leaves[transfer.target].shape;
    std::vector<IndexMap> maps;
    std::vector<Part> parts;
    for (const std::uint32_t index : transfers_of_[tensor]) {
      const Transfer& from = back_.transfers[index];
      if (from.decode) refuse_codes(back_.leaves[tensor].name);
      const Value value = both_values(from.value, transfer.value);
      maps.clear();
      compose(from.map, onward, maps);
      for (const IndexMap& map : maps) {
        parts.push_back({from.sources.front(), split_by_axes(map, shape), value,
                         from.copy || transfer.copy, !from.value.empty() && !value.empty()});
      }
    }
    for (const std::uint32_t index : fills_of_[tensor]) {
      const Fill& from = back_.fills[index];
      maps.clear();
      compose(from.map, onward, maps);
      for (const IndexMap& map : maps) {
        out().fills.push_back({transfer.target, rule(forward_, transfer.rule),
                               split_by_axes(map, shape), apply(transfer.value, from.scalar)});
      }
    }
    return parts;
  }

  // Adds one part for each source of a rule. Loops over places in one array become digits of the
  // map.
  void add_folded(const Transfer& transfer, std::span<Part> column) {
    const bool alike = std::ranges::all_of(
        column, [&](const Part& part) { return part.goes_like(column.front()); });
    if (!alike) {
      for (const Part& part : column) add(transfer, {}, {&part, 1});
      return;
    }
    std::vector<Loop> loops = transfer.loops;
    std::vector<Part> parts(column.begin(), column.end());
    for (std::size_t axis = loops.size(); axis-- > 0;) fold(axis, loops, parts);
    const Part& first = parts.front();
    const TensorInfo& array = tree_.tensors[first.array];
    const bool one_map = std::ranges::all_of(parts, [&](const Part& part) {
      const TensorInfo& other = tree_.tensors[part.array];
      return part.map.src_base == first.map.src_base && other.shape == array.shape &&
             other.dtype == array.dtype;
    });
    if (one_map) {
      add(transfer, loops, parts);
      return;
    }
    for (const Part& part : parts) add(transfer, {}, {&part, 1});
  }

  // Removes a loop if all its steps are in one array, at even distances.
  static void fold(std::size_t axis, std::vector<Loop>& loops, std::vector<Part>& parts) {
    const Loop loop = loops[axis];
    const std::uint64_t inner = cells_within(loops, axis);
    if (loop.extent > 1) {
      const auto step =
          static_cast<std::int64_t>(parts[inner].map.src_base - parts.front().map.src_base);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::uint64_t at = i / inner % loop.extent;
        const Part& first = parts[i - at * inner];
        const bool even =
            parts[i].array == first.array &&
            parts[i].map.src_base == first.map.src_base + at * static_cast<std::uint64_t>(step);
        if (!even) return;
      }
      std::vector<Part> kept;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i / inner % loop.extent != 0) continue;
        kept.push_back(std::move(parts[i]));
        kept.back().map.digits.push_back({loop.extent, step, loop.dst_step});
      }
      parts = std::move(kept);
    }
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(axis));
  }

  static void check_cast(const Value& value, DType from, const Leaf& leaf) {
    const bool plain = value.empty() && from == leaf.dtype;
    if (plain || can_apply_value(value, from, leaf.dtype)) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("hfshard can't cast {} to {}", to_string(from), to_string(leaf.dtype)))
        .in_tensor(leaf.name);
  }

  // Adds one transfer for parts that only differ in their arrays, row-major over loops.
  void add(const Transfer& transfer, const std::vector<Loop>& loops, std::span<const Part> parts) {
    const Part& first = parts.front();
    const TensorInfo& array = tree_.tensors[first.array];
    const Leaf& leaf = forward_.leaves[transfer.target];
    check_cast(first.value, array.dtype, leaf);
    Transfer made;
    made.target = transfer.target;
    made.rule = rule(forward_, transfer.rule);
    made.loops = loops;
    for (const Part& part : parts) made.sources.push_back(part.array);
    made.source_shape = array.shape;
    made.source_dtype = array.dtype;
    made.map = first.map;
    made.value = first.value;
    made.copy = first.copy;
    computed_ = computed_ || first.computed;
    out().transfers.push_back(std::move(made));
  }

  // Drops a region of a tensor that the leaves have no place for, from the arrays. If it was
  // dropped as equal to another tensor, claims that, since neither is a range of a file.
  void add_drop(const Drop& drop) {
    for (const std::uint32_t index : transfers_of_[drop.source]) {
      const Transfer& from = back_.transfers[index];
      if (from.copy) continue;  // made from another tensor's elements
      const TensorInfo& array = tree_.tensors[from.sources.front()];
      const std::string* accepted = accepted_loss(options_, array.name);
      std::vector<IndexMap> maps;
      compose(from.map, drop.map, maps);
      for (IndexMap& map : maps) {
        Drop made;
        made.source = from.sources.front();
        made.rule = accepted != nullptr ? builder_.rule(kDropFlag) : rule(forward_, drop.rule);
        made.map = std::move(map);
        made.why = accepted != nullptr ? accepted_why(*accepted) : drop.why;
        out().drops.push_back(std::move(made));
      }
      if (drop.same_as && accepted == nullptr) claim_twin(from, *drop.same_as, drop.rule);
    }
  }

  // Claims that an array made from one tensor has the values of another tensor.
  void claim_twin(const Transfer& from, std::uint32_t tensor, std::uint32_t number) {
    const std::uint32_t target = claimed_leaf(from.sources.front());
    const Leaf& leaf = claims_.leaves[target];
    const IndexMap onward = inverse(from.map);
    for (const std::uint32_t index : transfers_of_[tensor]) {
      const Transfer& twin = back_.transfers[index];
      const TensorInfo& array = tree_.tensors[twin.sources.front()];
      std::vector<IndexMap> maps;
      compose(twin.map, onward, maps);
      for (const IndexMap& map : maps) {
        Transfer made;
        made.target = target;
        made.rule = number;
        made.sources = {twin.sources.front()};
        made.source_shape = array.shape;
        made.source_dtype = array.dtype;
        made.map = split_by_axes(map, leaf.shape);
        made.value = both_values(twin.value, inverse_value(from.value));
        check_cast(made.value, array.dtype, leaf);
        claims_.transfers.push_back(std::move(made));
      }
    }
  }

  std::uint32_t claimed_leaf(std::uint32_t array) {
    const std::string& name = tree_.tensors[array].name;
    const auto known = std::ranges::find(claims_.leaves, name, &Leaf::name);
    if (known == claims_.leaves.end()) {
      Leaf leaf;
      static_cast<Array&>(leaf) = tree_.tensors[array];
      claims_.leaves.push_back(std::move(leaf));
      return static_cast<std::uint32_t>(claims_.leaves.size() - 1);
    }
    return static_cast<std::uint32_t>(known - claims_.leaves.begin());
  }

  // Takes the claims of the export, and those added here.
  void take_claims() {
    out().claims = back_.claims;
    if (claims_.leaves.empty()) return;
    claims_.rules = forward_.rules;
    check_claims_cover(claims_, tree_);
    shorten_rows(claims_);
    if (back_.claims) {
      const auto leaves = static_cast<std::uint32_t>(claims_.leaves.size());
      const auto rules = static_cast<std::uint32_t>(claims_.rules.size());
      const CompiledModel& more = *back_.claims;
      claims_.leaves.insert(claims_.leaves.end(), more.leaves.begin(), more.leaves.end());
      claims_.rules.insert(claims_.rules.end(), more.rules.begin(), more.rules.end());
      for (Transfer transfer : more.transfers) {
        transfer.target += leaves;
        transfer.rule += rules;
        claims_.transfers.push_back(std::move(transfer));
      }
      for (Fill fill : more.fills) {
        fill.target += leaves;
        fill.rule += rules;
        claims_.fills.push_back(std::move(fill));
      }
    }
    out().claims = std::make_shared<const CompiledModel>(std::move(claims_));
  }

  const CompiledModel& back_;
  CompiledModel forward_;
  const Catalog& tree_;
  ModelBuilder builder_;
  std::vector<std::vector<std::uint32_t>> transfers_of_, fills_of_;  // of `back`, by its leaves
  const MappingOptions& options_;
  CompiledModel claims_;
  bool computed_ = false;
};

}  // namespace

Catalog tensors_of(const std::vector<Array>& arrays, std::string config_text, const Catalog& tree) {
  Catalog out;
  out.location = tree.location;
  out.directory = tree.directory;
  out.config_text = std::move(config_text);
  out.tensors.reserve(arrays.size());
  for (const Array& array : arrays) out.tensors.push_back({array});
  return out;
}

CompiledModel compile_through(const CompiledModel& back, CompiledModel forward, const Catalog& tree,
                              const std::vector<std::string>& drop) {
  MappingOptions options;
  options.drop = drop;
  options.scheme = forward.scheme;
  options.flat_names = true;  // checked when `forward` was compiled
  const std::uint64_t left_out_leaves = back.left_out_leaves + forward.left_out_leaves;
  CompiledModel model = Composer(back, std::move(forward), tree, options).compose_all();
  model.left_out_leaves = left_out_leaves;
  shorten_rows(model);
  return proved(tree, std::move(model));
}

}  // namespace hfshard
