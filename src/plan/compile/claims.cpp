// The claims that an export relies on. It may drop an element that the forward rules made from
// something else. That can be a constant, a tensor in another leaf, or a neighbor that it repeats.
// Each array with such elements is computed again from the output, and the run compares them.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "ops/compose.h"
#include "ops/source_rows.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A source of a transfer that owns its elements.
struct Owner {
  std::uint32_t transfer = 0;
  std::uint64_t number = 0;
};

bool repeats(const Transfer& transfer) {
  return std::ranges::any_of(transfer.map.digits, [](const Digit& digit) {
    return digit.extent > 1 && digit.src_step == 0;
  });
}

// Keeps only one of the digits' paths to each element of a tensor.
IndexMap once_each(const IndexMap& back) {
  IndexMap out = back;
  out.digits.clear();
  for (const Digit& digit : back.digits) {
    if (digit.extent <= 1 || digit.dst_step != 0) out.digits.push_back(digit);
  }
  return out;
}

class ClaimBuilder {
 public:
  ClaimBuilder(const CompiledModel& forward, const Catalog& source, const Catalog& tree,
               const std::vector<std::uint32_t>& arrays, const MappingOptions& options)
      : forward_(forward), source_(source), tree_(tree), arrays_(arrays), options_(options) {}

  std::shared_ptr<const CompiledModel> build(const std::vector<bool>& unwanted) {
    const std::vector<bool> wanted = leaves_with_claims(unwanted);
    if (std::ranges::count(wanted, true) == 0) return nullptr;
    find_owners();
    out_.family = forward_.family;
    out_.scheme = forward_.scheme;
    out_.rules = forward_.rules;
    place_.resize(wanted.size());
    for (std::size_t leaf = 0; leaf < wanted.size(); ++leaf) {
      if (!wanted[leaf]) continue;
      place_[leaf] = static_cast<std::uint32_t>(out_.leaves.size());
      Leaf made;
      static_cast<Array&>(made) = tree_.tensors[arrays_[leaf]];
      out_.leaves.push_back(std::move(made));
    }
    for (const Transfer& transfer : forward_.transfers) {
      if (wanted[transfer.target]) add_transfer(transfer);
    }
    for (const Fill& fill : forward_.fills) {
      if (!wanted[fill.target]) continue;
      Fill kept = fill;
      kept.target = place_[fill.target];
      out_.fills.push_back(std::move(kept));
    }
    check_claims_cover(out_, tree_);
    shorten_rows(out_);
    return std::make_shared<const CompiledModel>(std::move(out_));
  }

 private:
  bool is_left_out(std::uint32_t tensor) const {
    return left_out(options_, source_.tensors[tensor].name).has_value();
  }

  std::vector<bool> leaves_with_claims(const std::vector<bool>& unwanted) const {
    std::vector<bool> out(forward_.leaves.size(), false);
    for (const Fill& fill : forward_.fills) out[fill.target] = true;
    for (const Transfer& transfer : forward_.transfers) {
      if (transfer.copy || repeats(transfer)) out[transfer.target] = true;
    }
    for (std::size_t leaf = 0; leaf < out.size(); ++leaf) {
      if (unwanted[leaf] || accepted_loss(options_, forward_.leaves[leaf].name) != nullptr)
        out[leaf] = false;
    }
    return out;
  }

  void find_owners() {
    owners_.resize(source_.tensors.size());
    for (std::uint32_t t = 0; t < forward_.transfers.size(); ++t) {
      const Transfer& transfer = forward_.transfers[t];
      if (transfer.copy) continue;
      for (std::uint64_t n = 0; n < transfer.sources.size(); ++n)
        owners_[transfer.sources[n]].push_back({t, n});
    }
  }

  void add_transfer(const Transfer& transfer) {
    if (!transfer.copy && !repeats(transfer)) {  // all of its sources at once
      IndexMap map = transfer.map;
      for (const Loop& loop : transfer.loops) map.digits.push_back({loop.extent, 0, loop.dst_step});
      add_same(transfer, map, false);
      return;
    }
    for (std::uint64_t n = 0; n < transfer.sources.size(); ++n) {
      IndexMap map = transfer.map;
      map.dst_base += loop_offset(transfer, n);
      const bool claims = !is_left_out(transfer.sources[n]);
      if (transfer.copy && claims) {
        add_copy(transfer, transfer.sources[n], map);
      } else {
        add_same(transfer, map, claims);
      }
    }
  }

  // Adds elements from the array itself: each one, or the first of those that repeat.
  void add_same(const Transfer& transfer, const IndexMap& forward, bool repeated) {
    IndexMap map;
    map.src_base = map.dst_base = forward.dst_base;
    for (const Digit& digit : forward.digits) {
      const bool stays = repeated && digit.extent > 1 && digit.src_step == 0;
      map.digits.push_back({digit.extent, stays ? 0 : digit.dst_step, digit.dst_step});
    }
    add(transfer, arrays_[transfer.target], std::move(map), {});
  }

  // Adds elements that another array also has, through the tensor that both are made of.
  void add_copy(const Transfer& transfer, std::uint32_t tensor, const IndexMap& onward) {
    const Shape& shape = forward_.leaves[transfer.target].shape;
    for (const Owner& owner : owners_[tensor]) {
      const Transfer& from = forward_.transfers[owner.transfer];
      IndexMap back = inverse(from.map);
      back.src_base += loop_offset(from, owner.number);
      std::vector<IndexMap> maps;
      compose(once_each(split_by_axes(back, from.source_shape)), onward, maps);
      const Value value = both_values(inverse_value(from.value), transfer.value);
      for (const IndexMap& map : maps)
        add(transfer, arrays_[from.target], split_by_axes(map, shape), value);
    }
  }

  void add(const Transfer& transfer, std::uint32_t array, IndexMap map, const Value& value) {
    const TensorInfo& info = tree_.tensors[array];
    Transfer made;
    made.target = place_[transfer.target];
    made.rule = transfer.rule;
    made.sources = {array};
    made.source_shape = info.shape;
    made.source_dtype = info.dtype;
    made.map = std::move(map);
    made.value = value;
    const DType dtype = out_.leaves[made.target].dtype;
    const bool plain = made.value.empty() && info.dtype == dtype;
    if (!plain && !can_apply_value(made.value, info.dtype, dtype)) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the {} holds {} and its copy {} {}, which can't be compared",
                              tree_.wording.array, to_string(dtype), quote(info.name),
                              to_string(info.dtype)))
          .in_file(tree_.location)
          .in_tensor(out_.leaves[made.target].name)
          .hint(drop_hint(options_, {out_.leaves[made.target].name}));
    }
    out_.transfers.push_back(std::move(made));
  }

  const CompiledModel& forward_;
  const Catalog& source_;
  const Catalog& tree_;
  const std::vector<std::uint32_t>& arrays_;
  const MappingOptions& options_;
  std::vector<std::vector<Owner>> owners_;  // by tensor of the source
  std::vector<std::uint32_t> place_;        // by leaf, among the claimed leaves
  CompiledModel out_;
};

}  // namespace

std::vector<bool> left_out_leaves(const CompiledModel& forward, const Catalog& source,
                                  const MappingOptions& options) {
  std::vector<bool> out(forward.leaves.size(), false);
  std::vector<bool> wanted(out.size(), false);
  for (const Transfer& transfer : forward.transfers) {
    out[transfer.target] = true;
    if (!wanted[transfer.target]) {
      wanted[transfer.target] = std::ranges::any_of(transfer.sources, [&](std::uint32_t tensor) {
        return !left_out(options, source.tensors[tensor].name);
      });
    }
  }
  for (std::size_t leaf = 0; leaf < out.size(); ++leaf) out[leaf] = out[leaf] && !wanted[leaf];
  return out;
}

Value inverse_value(const Value& value) {
  Value out;
  if (value.mul) out.mul = 1.0F / *value.mul;
  if (value.add) out.add = -*value.add / value.mul.value_or(1.0F);
  return out;
}

Value both_values(const Value& first, const Value& second) {
  constexpr double kRounding = 1e-6;  // of two constants in f32
  if (first.empty()) return second;
  if (second.empty()) return first;
  const double factor = double{second.mul.value_or(1.0F)};
  const double mul = double{first.mul.value_or(1.0F)} * factor;
  const double add = double{first.add.value_or(0.0F)} * factor + double{second.add.value_or(0.0F)};
  Value out;
  if (std::abs(mul - 1.0) > kRounding) out.mul = static_cast<float>(mul);
  if (std::abs(add) > kRounding) out.add = static_cast<float>(add);
  return out;
}

void check_claims_cover(const CompiledModel& claims, const Catalog& tree) {
  std::vector<std::vector<IndexMap>> maps(claims.leaves.size());
  for (const Transfer& transfer : claims.transfers) maps[transfer.target].push_back(transfer.map);
  for (const Fill& fill : claims.fills) maps[fill.target].push_back(fill.map);
  for (std::size_t leaf = 0; leaf < maps.size(); ++leaf) {
    const Leaf& info = claims.leaves[leaf];
    if (!tiles_exactly(info.shape.numel(), maps[leaf], Side::target).found) continue;
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "part of this {} would be dropped, and hfshard can't compare it with the output",
            tree.wording.array))
        .in_file(tree.location)
        .in_tensor(info.name)
        .hint(drop_hint({}, {info.name}));
  }
}

std::shared_ptr<const CompiledModel> claims_of(const CompiledModel& forward, const Catalog& source,
                                               const Catalog& tree,
                                               const std::vector<std::uint32_t>& arrays,
                                               const std::vector<bool>& unwanted,
                                               const MappingOptions& options) {
  return ClaimBuilder(forward, source, tree, arrays, options).build(unwanted);
}

}  // namespace hfshard
