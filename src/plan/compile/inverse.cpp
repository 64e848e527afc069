#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/scheme_defaults.h"
#include "ops/source_rows.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class Inverter {
 public:
  Inverter(const CompiledModel& forward, const Catalog& source, const Catalog& tree,
           const MappingOptions& options)
      : forward_(forward),
        source_(source),
        tree_(tree),
        options_(options),
        builder_(tree, of_leaves(options)),
        leaf_of_(source.tensors.size()) {}

  CompiledModel invert() {
    check_side(options_.exclude);
    check_globs(options_, source_, tree_.location);
    CompiledModel& model = builder_.model();
    model.family = forward_.family;
    model.stacked = forward_.stacked;
    model.config_text = forward_.config_text;
    const std::vector<bool> unwanted = left_out_leaves(forward_, source_, options_);
    for (std::size_t i = 0; i < forward_.leaves.size(); ++i)
      arrays_.push_back(array_of(forward_.leaves[i], unwanted[i]));
    for (const Transfer& transfer : forward_.transfers) {
      for (std::uint64_t i = 0; i < transfer.sources.size(); ++i) add_source(transfer, i);
    }
    for (const Fill& fill : forward_.fills)
      drop_region(fill.target, rule(fill.rule), fill.map, "a fill");
    for (const Drop& drop : forward_.drops) add_region(drop);
    for (const Drop& drop : forward_.drops) add_twin(drop);
    drop_rest();
    check_parts_of_codes();
    note_missing();
    note_filled();
    note_inexact();
    model.claims = claims_of(forward_, source_, tree_, arrays_, unwanted, options_);
    return builder_.finish();
  }

 private:
  // Globs choose tensors of the model, not arrays of the tree.
  static MappingOptions of_leaves(MappingOptions options) {
    options.include.clear();
    options.exclude.clear();
    return options;
  }

  std::uint32_t array_of(const Leaf& leaf, bool unwanted) {
    const auto found = tree_.find(leaf.name);
    if (!found && unwanted) return kNoArray;
    if (!found) {
      throw Error(ErrorCode::not_found,
                  fmt::format("the checkpoint lacks a {} with this name", tree_.wording.array))
          .in_file(tree_.location)
          .in_tensor(leaf.name)
          .hint("check that it has this model and layout (--layers)");
    }
    if (!(tree_.tensors[*found].shape == leaf.shape)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the {} has {}, and the model has {}", tree_.wording.array,
                              to_string(tree_.tensors[*found].shape), to_string(leaf.shape)))
          .in_file(tree_.location)
          .in_tensor(leaf.name)
          .hint("check that config.json belongs to this checkpoint's model");
    }
    builder_.mark(*found, TensorUse::mapped);
    return *found;
  }

  std::uint32_t rule(std::uint32_t number) { return builder_.rule(forward_.rules[number]); }

  // Returns the leaf for a tensor of the source.
  std::uint32_t leaf_of(std::uint32_t tensor, const Shape& shape, DType natural, DType from,
                        const Value& value) {
    CompiledModel& model = builder_.model();
    if (leaf_of_[tensor]) {
      check_kept(model.leaves[*leaf_of_[tensor]], from);
      return *leaf_of_[tensor];
    }
    Leaf leaf;
    leaf.name = builder_.options().prefix + source_.tensors[tensor].name;
    leaf.shape = shape;
    leaf.dtype = leaf_dtype(builder_.options(), leaf.name, natural, {});
    if (!can_apply_value(value, from, leaf.dtype)) {
      check_codes(source_.tensors[tensor], from);
      throw Error(ErrorCode::unsupported, fmt::format("hfshard can't cast {} to {}",
                                                      to_string(from), to_string(leaf.dtype)))
          .in_tensor(leaf.name);
    }
    leaf_of_[tensor] = static_cast<std::uint32_t>(model.leaves.size());
    model.leaves.push_back(std::move(leaf));
    return *leaf_of_[tensor];
  }

  // Refuses a cast of codes, which an export can't decode.
  void check_codes(const TensorInfo& codes, DType from) const {
    const TensorInfo* scale = scale_beside(codes, source_);
    if (scale == nullptr || size_bits(from) > 8) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("the tensor is stored as {} with the scales {}, and an export can't "
                            "decode them",
                            safetensors_name(from), quote(scale->name)))
        .in_tensor(codes.name)
        .hint("pass --dtype keep, and then convert the result with --dtype bf16");
  }

  // Refuses casts that would change scales and leave their codes as stored.
  void check_parts_of_codes() {
    if (!options_.dtype && options_.casts.empty()) return;
    const auto stays = [&](std::uint32_t tensor) {
      return builder_.model().leaves[*leaf_of_[tensor]].dtype == source_.tensors[tensor].dtype;
    };
    KeptCodes kept;
    for (std::uint32_t i = 0; i < leaf_of_.size(); ++i) {
      if (leaf_of_[i] && stays(i)) kept.add(source_.tensors[i]);
    }
    for (std::uint32_t i = 0; i < leaf_of_.size(); ++i) {
      if (!leaf_of_[i] || stays(i)) continue;
      const TensorInfo& part = source_.tensors[i];
      if (const TensorInfo* codes = kept.codes_of(part)) {
        throw cast_of_part(part.name, codes->name, options_)
            .hint("leave out --dtype and --cast to keep both");
      }
    }
  }

  // With --dtype keep, every part of a tensor must be stored in the tensor's dtype.
  void check_kept(const Leaf& leaf, DType from) const {
    if (!options_.keep_dtype || leaf_dtype(options_, leaf.name, from, {}) == leaf.dtype) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("the tensor comes from arrays of different dtypes, {} and {}",
                            to_string(leaf.dtype), to_string(from)))
        .in_tensor(leaf.name)
        .hint("pass --dtype bf16 or --dtype f32 instead of --dtype keep");
  }

  // Returns the dtype of a tensor without --dtype and --cast. It is the model's or, with --dtype
  // keep, the checkpoint's. A checkpoint made from f64 doesn't become f64 again.
  DType natural_dtype(const TensorInfo& info, const Leaf& forward, bool coded, DType from) const {
    if (options_.keep_dtype || (info.dtype == DType::f64 && !coded)) return from;
    return coded ? forward.dtype : info.dtype;
  }

  void add_source(const Transfer& transfer, std::uint64_t number) {
    const std::uint64_t offset = loop_offset(transfer, number);
    const std::uint32_t tensor = transfer.sources[number];
    const auto drop = [&](std::uint32_t by, std::string why) {
      IndexMap region = transfer.map;
      region.dst_base += offset;
      drop_region(transfer.target, by, region, std::move(why));
    };
    if (const auto asked = left_out(options_, source_.tensors[tensor].name))
      return drop(builder_.rule(asked->flag), asked->why);
    if (transfer.copy) return drop(rule(transfer.rule), "a copy of what is written");
    const TensorInfo& info = source_.tensors[tensor];
    const std::uint32_t array = arrays_[transfer.target];
    Transfer back;
    back.sources = {array};
    back.source_shape = tree_.tensors[array].shape;
    back.source_dtype = tree_.tensors[array].dtype;
    back.rule = rule(transfer.rule);
    back.value = inverse_value(transfer.value);
    const bool coded = transfer.decode != nullptr || !(transfer.source_shape == info.shape);
    const DType natural =
        natural_dtype(info, forward_.leaves[transfer.target], coded, back.source_dtype);
    back.target = leaf_of(tensor, transfer.source_shape, natural, back.source_dtype, back.value);
    IndexMap map = inverse(transfer.map);
    map.src_base += offset;
    back.map = without_repeats(split_by_axes(map, transfer.source_shape), transfer);
    builder_.model().transfers.push_back(std::move(back));
  }

  // If the leaf repeats elements, only the first ones are written back.
  IndexMap without_repeats(const IndexMap& map, const Transfer& transfer) {
    IndexMap out = map;
    out.digits.clear();
    for (std::size_t k = 0; k < map.digits.size(); ++k) {
      const Digit& digit = map.digits[k];
      if (digit.extent <= 1 || digit.dst_step != 0) {
        out.digits.push_back(digit);
        continue;
      }
      IndexMap others;  // of the leaf; sides as in a forward map
      others.dst_base = map.src_base + static_cast<std::uint64_t>(digit.src_step);
      others.digits.push_back({digit.extent - 1, 0, digit.src_step});
      for (std::size_t j = 0; j < map.digits.size(); ++j) {
        if (j > k || (j < k && map.digits[j].dst_step != 0))
          others.digits.push_back({map.digits[j].extent, 0, map.digits[j].src_step});
      }
      drop_region(transfer.target, rule(transfer.rule), others, "repeats what is written");
    }
    return out;
  }

  // Drops a region of an array. The target side of `map` is the leaf's.
  void drop_region(std::uint32_t leaf, std::uint32_t number, const IndexMap& map, std::string why) {
    if (arrays_[leaf] == kNoArray) return;
    Drop drop;
    drop.source = arrays_[leaf];
    drop.rule = number;
    drop.why = std::move(why);
    if (const std::string* glob = accepted_loss(options_, forward_.leaves[leaf].name)) {
      drop.rule = builder_.rule(kDropFlag);
      drop.why = accepted_why(*glob);
    }
    drop.map.src_base = map.dst_base;
    for (const Digit& digit : map.digits)
      drop.map.digits.push_back({digit.extent, digit.dst_step, 0});
    builder_.model().drops.push_back(std::move(drop));
  }

  // Fills a region with zeros that the forward rules dropped from a tensor.
  void add_region(const Drop& drop) {
    if (!leaf_of_[drop.source]) return;
    Fill fill;
    fill.target = *leaf_of_[drop.source];
    fill.rule = rule(drop.rule);
    fill.map.dst_base = drop.map.src_base;
    for (const Digit& digit : drop.map.digits)
      fill.map.digits.push_back({digit.extent, 0, digit.src_step});
    builder_.model().fills.push_back(std::move(fill));
  }

  // Makes a tensor again that was dropped as a copy of another one.
  void add_twin(const Drop& drop) {
    CompiledModel& model = builder_.model();
    if (!drop.same_as || !leaf_of_[*drop.same_as] || leaf_of_[drop.source]) return;
    if (left_out(options_, source_.tensors[drop.source].name)) return;
    const std::uint32_t twin = *leaf_of_[*drop.same_as];
    const auto number = static_cast<std::uint32_t>(model.leaves.size());
    Leaf leaf = model.leaves[twin];
    leaf.name = builder_.options().prefix + source_.tensors[drop.source].name;
    const DType natural = options_.keep_dtype ? leaf.dtype : source_.tensors[drop.source].dtype;
    leaf.dtype = leaf_dtype(builder_.options(), leaf.name, natural, {});
    leaf_of_[drop.source] = number;
    model.leaves.push_back(std::move(leaf));
    const std::size_t transfers = model.transfers.size();
    for (std::size_t t = 0; t < transfers; ++t) {
      if (model.transfers[t].target != twin) continue;
      Transfer copy = model.transfers[t];
      copy.target = number;
      copy.rule = rule(drop.rule);
      copy.copy = true;
      model.transfers.push_back(std::move(copy));
    }
    const std::size_t fills = model.fills.size();
    for (std::size_t k = 0; k < fills; ++k) {
      if (model.fills[k].target != twin) continue;
      Fill copy = model.fills[k];
      copy.target = number;
      model.fills.push_back(std::move(copy));
    }
  }

  // Handles arrays that aren't parameters of the model.
  void drop_rest() {
    std::vector<std::string> unknown;
    for (std::uint32_t i = 0; i < tree_.tensors.size(); ++i) {
      if (builder_.use(i) != TensorUse::none) continue;
      const TensorInfo& info = tree_.tensors[i];
      if (const std::string* glob = accepted_loss(options_, info.name)) {
        builder_.drop_whole(i, builder_.rule(kDropFlag), accepted_why(*glob));
      } else {
        builder_.drop_whole(i, builder_.rule("inverse"), "no parameter of the model");
        // Counters aren't weights.
        if (is_float(info.dtype) && !is_training_state(info.name)) unknown.push_back(info.name);
      }
      builder_.mark(i, TensorUse::dropped);
    }
    if (!unknown.empty()) fail_unknown(unknown);
  }

  // Refuses globs of --exclude that name arrays of the tree. They stand for the model's tensors.
  void check_side(const std::vector<std::string>& globs) const {
    for (const std::string& glob : globs) {
      const auto fits = [&](const TensorInfo& info) { return glob_match(glob, info.name); };
      if (std::ranges::any_of(source_.tensors, fits) || !std::ranges::any_of(tree_.tensors, fits))
        continue;
      throw Error(ErrorCode::usage,
                  fmt::format("--exclude {} names what the checkpoint holds, but here it selects "
                              "tensors of the output",
                              quote(glob)))
          .in_file(tree_.location)
          .hint(fmt::format("pass --drop {} to leave them out", shell_word(glob)));
    }
  }

  // Returns the names. One glob, such as `ema_params.*`, stands for all names below a first key
  // without arrays of the model.
  std::vector<std::string> globs_of(const std::vector<std::string>& names,
                                    std::set<std::string>& tops) const {
    std::set<std::string> in_model;
    for (std::uint32_t i = 0; i < tree_.tensors.size(); ++i) {
      if (builder_.use(i) != TensorUse::dropped) in_model.insert(first_key(tree_.tensors[i].name));
    }
    std::vector<std::string> out;
    for (const std::string& name : names) {
      if (name.find('.') == std::string::npos || in_model.contains(first_key(name))) {
        out.push_back(name);
      } else if (tops.insert(first_key(name)).second) {
        out.push_back(glob_of(first_key(name)) + ".*");
      }
    }
    return out;
  }

  [[noreturn]] void fail_unknown(const std::vector<std::string>& names) const {
    std::set<std::string> tops;
    const std::vector<std::string> globs = globs_of(names, tops);
    std::string hint = drop_hint(options_, globs);
    if (globs.size() == 1 && tops.size() == 1) {
      hint +=
          fmt::format(", or --root {} to convert only what is below it", shell_word(*tops.begin()));
    }
    throw Error(ErrorCode::bad_input,
                fmt::format("the model has no place for this {}, so its values would be lost{}",
                            tree_.wording.array, and_others(names.size())))
        .in_file(tree_.location)
        .in_tensor(names.front())
        .hint(hint);
  }

  // Notes tensors that were left out of the tree. Scales of decoded tensors don't count.
  void note_missing() {
    std::vector<bool> scale(source_.tensors.size(), false);
    for (const Transfer& transfer : forward_.transfers) {
      if (transfer.decode)
        transfer.decode->for_each_tensor([&](std::uint32_t tensor) { scale[tensor] = true; });
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < source_.tensors.size(); ++i) {
      if (leaf_of_[i] || scale[i]) continue;
      if (left_out(options_, source_.tensors[i].name)) {
        if (!is_training_state(source_.tensors[i].name)) ++builder_.model().left_out_leaves;
        continue;
      }
      names.push_back(source_.tensors[i].name);
    }
    note_left_out(std::move(names), source_.tensors.size(), builder_.model());
  }

  // Notes parts of tensors that were left out.
  void note_filled() {
    const CompiledModel& model = builder_.model();
    if (model.fills.empty()) return;
    std::vector<std::string> names;
    for (const Fill& fill : model.fills) {
      const std::string& name = model.leaves[fill.target].name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    builder_.model().notes.push_back(fmt::format(
        "filled with zeros, because it was cut when the checkpoint was made: part of {}",
        join(names, ", ")));
  }

  // Notes values that the forward rules computed and rounded.
  void note_inexact() {
    std::vector<std::uint32_t> rules;
    for (const Transfer& transfer : forward_.transfers) {
      const Value& value = transfer.value;
      int exponent = 0;
      const DType to = forward_.leaves[transfer.target].dtype;
      // A power of two makes small values subnormal in f16.
      const bool exact =
          !value.mul || (to != DType::f16 && std::abs(std::frexp(*value.mul, &exponent)) == 0.5F);
      if ((exact && !value.add) || transfer.copy) continue;
      if (std::ranges::find(rules, transfer.rule) != rules.end()) continue;
      rules.push_back(transfer.rule);
      const std::string& name = source_.tensors[transfer.sources.front()].name;
      builder_.model().notes.push_back(
          value.mul ? fmt::format("{}: {} and similar tensors were multiplied by {} and rounded to "
                                  "{}; they return within 1 ulp{}",
                                  kNotExact, name, *value.mul, to_string(to),
                                  to == DType::f16 ? ", and subnormal values less exactly" : "")
                    : fmt::format("{} below 2^-16: {} and similar tensors had {} added in {}",
                                  kNotExact, name, *value.add, to_string(to)));
    }
  }

  const CompiledModel& forward_;
  const Catalog& source_;
  const Catalog& tree_;
  const MappingOptions& options_;
  ModelBuilder builder_;
  static constexpr std::uint32_t kNoArray = UINT32_MAX;  // nothing of the leaf is wanted
  std::vector<std::uint32_t> arrays_;                    // of the tree, by leaf of `forward`
  std::vector<std::optional<std::uint32_t>> leaf_of_;    // by tensor of the source
};

}  // namespace

void note_left_out(std::vector<std::string> names, std::size_t of_tensors, CompiledModel& model) {
  constexpr std::size_t kShown = 3;
  if (names.empty()) return;
  const std::size_t missing = names.size();
  names.resize(std::min(missing, kShown));
  model.notes.push_back(
      fmt::format("not in this checkpoint, because they were left out when it was made: {} of {} "
                  "tensors ({}{})",
                  missing, of_tensors, join(names, ", "), missing > kShown ? ", ..." : ""));
}

CompiledModel compile_inverse(const CompiledModel& forward, const Catalog& source,
                              const Catalog& tree, const MappingOptions& options) {
  CompiledModel model = proved(tree, Inverter(forward, source, tree, options).invert());
  shorten_rows(model);
  return model;
}

}  // namespace hfshard
