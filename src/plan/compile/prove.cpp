#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/compile_model.h"

namespace hfshard {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// A map over a tensor, and its rule.
struct Region {
  IndexMap map;
  std::uint32_t rule = 0;
};

// Returns the element's coordinates: `[3, 7]`.
std::string coordinates(std::uint64_t element, const Shape& shape) {
  std::vector<std::string> out(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] == 0) continue;
    out[axis] = fmt::format("{}", element % shape[axis]);
    element /= shape[axis];
  }
  return "[" + join(out, ", ") + "]";
}

class Prover {
 public:
  Prover(const Catalog& catalog, const CompiledModel& model) : catalog_(catalog), model_(model) {}

  std::vector<CheckFinding> prove() {
    targets();
    sources();
    return std::move(findings_);
  }

 private:
  void check(const std::string& name, const Shape& shape, std::span<const Region> regions,
             Side side) {
    std::vector<IndexMap> maps;
    maps.reserve(regions.size());
    for (const Region& region : regions) maps.push_back(region.map);
    const TilingFault fault = tiles_exactly(shape.numel(), maps, side);
    if (!fault.found) return;
    CheckFinding out;
    out.tensor = name;
    if (fault.map_index < regions.size()) out.rule = model_.rules[regions[fault.map_index].rule];
    const std::string_view verb = side == Side::target ? "written" : "used";
    if (fault.element >= shape.numel()) {
      out.what =
          fault.times == 0
              ? fmt::format("the rules' regions of {} are too irregular to prove", quote(name))
              : fmt::format("a rule exceeds the {} elements of {}", shape.numel(), quote(name));
    } else {
      out.what = fmt::format("element {} of {} ({}) is {} {} times by its rules",
                             coordinates(fault.element, shape), quote(name), to_string(shape), verb,
                             fault.times);
    }
    findings_.push_back(std::move(out));
  }

  // The loops become digits, so a leaf has one region per transfer, for any number of tensors.
  static IndexMap with_loops(const Transfer& transfer) {
    IndexMap map = transfer.map;
    for (const Loop& loop : transfer.loops) map.digits.push_back({loop.extent, 0, loop.dst_step});
    return map;
  }

  void targets() {
    std::vector<std::uint32_t> count(model_.leaves.size() + 1, 0);
    for (const Transfer& transfer : model_.transfers) ++count[transfer.target + 1];
    for (const Fill& fill : model_.fills) ++count[fill.target + 1];
    for (std::size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
    // The items that cover leaf i: transfers, then (from transfers.size() on) fills.
    std::vector<std::uint32_t> cover(count.back());
    std::vector<std::uint32_t> next(count.begin(), count.end() - 1);
    const auto transfers = static_cast<std::uint32_t>(model_.transfers.size());
    for (std::uint32_t i = 0; i < transfers; ++i) cover[next[model_.transfers[i].target]++] = i;
    for (std::uint32_t i = 0; i < model_.fills.size(); ++i) {
      cover[next[model_.fills[i].target]++] = transfers + i;
    }
    std::vector<Region> regions;
    for (std::size_t leaf = 0; leaf < model_.leaves.size(); ++leaf) {
      regions.clear();
      for (std::uint32_t k = count[leaf]; k < count[leaf + 1]; ++k) {
        if (cover[k] < transfers) {
          const Transfer& transfer = model_.transfers[cover[k]];
          regions.push_back({with_loops(transfer), transfer.rule});
        } else {
          const Fill& fill = model_.fills[cover[k] - transfers];
          regions.push_back({fill.map, fill.rule});
        }
      }
      check(model_.leaves[leaf].name, model_.leaves[leaf].shape, regions, Side::target);
    }
  }

  // Digits that repeat the same source elements count once.
  static IndexMap without_repeats(const IndexMap& map) {
    IndexMap out;
    out.src_base = map.src_base;
    for (const Digit& digit : map.digits) {
      if (digit.src_step != 0 || digit.extent == 0) out.digits.push_back(digit);
    }
    return out;
  }

  // Returns the shape that rules see. For packed codes, it is that of the codes.
  const Shape& shape_of(std::uint32_t tensor, std::uint32_t user) const {
    const bool packed = user != kNone && model_.transfers[user].decode;
    return packed ? model_.transfers[user].source_shape : catalog_.tensors[tensor].shape;
  }

  // Returns the tensors that are scales of others.
  std::vector<bool> scales() const {
    std::vector<bool> out(catalog_.tensors.size(), false);
    for (const Transfer& transfer : model_.transfers) {
      if (transfer.decode)
        transfer.decode->for_each_tensor([&](std::uint32_t tensor) { out[tensor] = true; });
    }
    return out;
  }

  // A tensor with one transfer and no drop is proved once for all tensors of that transfer.
  void sources() {
    const std::size_t tensors = catalog_.tensors.size();
    std::vector<std::uint32_t> uses(tensors, 0);
    std::vector<std::uint32_t> user(tensors, kNone);
    for (std::uint32_t t = 0; t < model_.transfers.size(); ++t) {
      if (model_.transfers[t].copy) continue;
      for (const std::uint32_t source : model_.transfers[t].sources) {
        ++uses[source];
        user[source] = t;
      }
    }
    for (const Drop& drop : model_.drops) ++uses[drop.source];
    const std::vector<bool> is_scale = scales();
    std::vector<std::vector<Region>> shared(tensors_shared(uses, user));
    std::vector<bool> proved(model_.transfers.size(), false);
    for (std::uint32_t i = 0; i < tensors; ++i) {
      const TensorInfo& tensor = catalog_.tensors[i];
      if (shared_index_[i] != kNone) {
        check(tensor.name, shape_of(i, user[i]), shared[shared_index_[i]], Side::source);
      } else if (user[i] == kNone) {
        if (!is_scale[i]) check(tensor.name, tensor.shape, {}, Side::source);
      } else if (!proved[user[i]]) {
        proved[user[i]] = true;
        const Transfer& transfer = model_.transfers[user[i]];
        const Region region{without_repeats(transfer.map), transfer.rule};
        check(tensor.name, shape_of(i, user[i]), {&region, 1}, Side::source);
      }
    }
  }

  // Collects the regions of every tensor that has several users, or a drop.
  std::vector<std::vector<Region>> tensors_shared(const std::vector<std::uint32_t>& uses,
                                                  const std::vector<std::uint32_t>& user) {
    std::vector<std::vector<Region>> out;
    shared_index_.assign(uses.size(), kNone);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] < 2 && (uses[i] == 0 || user[i] != kNone)) continue;
      shared_index_[i] = static_cast<std::uint32_t>(out.size());
      out.emplace_back();
    }
    for (const Transfer& transfer : model_.transfers) {
      if (transfer.copy) continue;
      for (const std::uint32_t source : transfer.sources) {
        if (shared_index_[source] == kNone) continue;
        out[shared_index_[source]].push_back({without_repeats(transfer.map), transfer.rule});
      }
    }
    for (const Drop& drop : model_.drops) {
      out[shared_index_[drop.source]].push_back({drop.map, drop.rule});
    }
    return out;
  }

  const Catalog& catalog_;
  const CompiledModel& model_;
  std::vector<CheckFinding> findings_;
  std::vector<std::uint32_t> shared_index_;
};

}  // namespace

std::vector<CheckFinding> prove(const Catalog& catalog, const CompiledModel& model) {
  return Prover(catalog, model).prove();
}

}  // namespace hfshard
