#include "run/check/claims.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/arena.h"
#include "base/coding.h"
#include "base/text.h"
#include "ops/index_map.h"
#include "ops/read_piece.h"
#include "plan/compile/steps.h"
#include "plan/pair_layout.h"
#include "run/check/compare.h"
#include "run/engine/budget.h"
#include "run/engine/sources.h"
#include "run/engine/stop.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

PairLayout layout_of(const Plan& plan) {
  return {plan.model().held(), plan.model().claimed(), plan.limits()};
}

// Heap of a plan beside the source, which the arrays' models share.
std::uint64_t held_bytes(const Plan& plan) {
  return plan.heap_bytes() - plan.model().source_heap_bytes();
}

bool leads_to(const IndexMap& map, const Shape& shape, const Box& element) {
  std::vector<IndexMap> parts;
  restrict_to(map, shape, element, parts);
  return !parts.empty();
}

Box box_of(const Shape& shape, std::uint64_t element) {
  Box out{shape, shape};
  for (std::size_t d = shape.rank(); d-- > 0;) {
    out.begin[d] = element % shape[d];
    out.extent[d] = 1;
    element /= shape[d];
  }
  return out;
}

// Why an element would be dropped.
struct Claim {
  std::string what;
  std::uint32_t rule = 0;
  bool copy = false;
};

Claim claim_of(const Model& claims, std::uint32_t leaf, const Box& element) {
  const Leaf& info = claims.leaves[leaf];
  for (const std::uint32_t number : claims.fills_of(leaf)) {
    const Fill& fill = claims.fills[number];
    if (leads_to(fill.map, info.shape, element)) return {"hfshard fills in", fill.rule};
  }
  for (const std::uint32_t number : claims.transfers_of(leaf)) {
    const Transfer& transfer = claims.transfers[number];
    if (!leads_to(transfer.map, info.shape, element)) continue;
    const std::string& other = claims.catalog().tensors[transfer.sources.front()].name;
    if (other == info.name) return {"the element that it should repeat has", transfer.rule};
    return {"its copy " + quote(other) + " has", transfer.rule, true};
  }
  return {"what is written has"};
}

[[noreturn]] void refuse(const Plan& plan, const CompareResult& found) {
  const Model& claims = *plan.model().claimed();
  const LeafDifference& first = found.leaves.front();
  const Leaf& leaf = claims.leaves[first.leaf];
  const Box element = box_of(leaf.shape, first.elements.first);
  const Claim claim = claim_of(claims, first.leaf, element);
  std::vector<std::string> names;
  for (const LeafDifference& item : found.leaves) names.push_back(claims.leaves[item.leaf].name);
  throw Error(ErrorCode::bad_input,
              fmt::format("{} of {} elements would be lost: element [{}] is {}, where {} {}{}",
                          first.elements.count, leaf.shape.numel(), fmt::join(element.begin, ", "),
                          element_text(leaf.dtype, first.left), claim.what,
                          element_text(leaf.dtype, first.right), and_others(names.size())))
      .in_file(plan.catalog().location)
      .in_tensor(leaf.name)
      .by_rule(claims.rules[claim.rule])
      .hint(drop_hint(plan.options().mapping, names, claim.copy));
}

// Whether a fill has the values of a leaf, though some of its zeros are negative: padding that a
// trainer scaled.
bool is_fill_by_value(const Model& claims, const LeafDifference& found) {
  const ElementDifferences& elements = found.elements;
  return found.damage.empty() && !claims.fills_of(found.leaf).empty() &&
         elements.largest_absolute == 0 && elements.left_nans == 0 && elements.right_nans == 0;
}

// Tensors of plain files that a rule drops as equal to another one (Drop::same_as): byte by byte.
void check_same_as(const Plan& plan, const RunOptions& options) {
  const auto is_copy = [](const Drop& drop) { return drop.same_as.has_value(); };
  if (std::ranges::none_of(plan.model().drops, is_copy)) return;
  const OpenSources sources = open_sources(plan.catalog(), options.io);
  // About as much as a unit of the run, whose buffers are made after these.
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 10;
  const std::uint64_t segment =
      std::min(plan.limits().segment_bytes, std::max(plan.totals().largest_need_bytes / 2, kLeast));
  Arena arena(2 * segment);
  const Arena::Block block = arena.take(2 * segment);
  for (const Drop& drop : plan.model().drops) {
    if (!is_copy(drop)) continue;
    const TensorInfo& one = plan.catalog().tensors[drop.source];
    const TensorInfo& other = plan.catalog().tensors[*drop.same_as];
    for (std::uint64_t at = 0; at < one.size_bytes; at += segment) {
      check_stop(options);
      const std::uint64_t size = std::min(segment, one.size_bytes - at);
      const auto a = block.bytes().first(size);
      const auto b = block.bytes().subspan(segment, size);
      sources[one.file]->read_at(one.begin_bytes + at, a);
      sources[other.file]->read_at(other.begin_bytes + at, b);
      sources[other.file]->done_with(other.begin_bytes + at, size);
      if (std::memcmp(a.data(), b.data(), size) != 0) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("this tensor would be dropped as a copy of {}, but differs from it",
                                quote(other.name)))
            .in_file(plan.catalog().files[one.file].path.text())
            .in_tensor(one.name)
            .at({one.begin_bytes + at, one.begin_bytes + at + size},
                plan.catalog().files[one.file].size_bytes)
            .by_rule(plan.model().rules[drop.rule])
            .hint(drop_hint(plan.options().mapping, {one.name}));
      }
    }
  }
  check_unchanged(sources);
}

// Returns the bytes of a small tensor of the source, or nothing if it is in several pieces.
std::vector<std::byte> bytes_of(const Plan& plan, std::uint32_t index) {
  const Catalog& catalog = plan.catalog();
  const TensorInfo& info = catalog.tensors[index];
  if (!(catalog.grid_of(index).chunk == info.shape)) return {};
  const Checkpoint& source = plan.model().source();
  std::vector<std::byte> out(packed_bytes(info.dtype, info.shape.numel()));
  std::vector<std::byte> scratch(row_major_scratch_bytes(source, index));
  Shape first = info.shape;
  std::fill_n(&first[0], first.rank(), 0);
  read_row_major(source, index, first, out, scratch);
  return out;
}

// Returns the integers of a small tensor. Empty without integers, or if it is in several pieces.
std::vector<std::int64_t> integers_of(const Plan& plan, std::uint32_t index) {
  const DType dtype = plan.catalog().tensors[index].dtype;
  if (dtype != DType::i64 && dtype != DType::i32) return {};
  const std::vector<std::byte> bytes = bytes_of(plan, index);
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at < bytes.size(); at += size_bits(dtype) / 8) {
    out.push_back(dtype == DType::i64 ? load_le<std::int64_t>(&bytes[at])
                                      : load_le<std::int32_t>(&bytes[at]));
  }
  return out;
}

// Checks tensors that are dropped since they only state a shape (Drop::states).
void check_stated_shapes(const Plan& plan, const RunOptions& options) {
  const auto states = [](const Drop& drop) { return drop.states.has_value(); };
  if (std::ranges::none_of(plan.model().drops, states)) return;
  const OpenSources sources = open_sources(plan.catalog(), options.io);
  for (const Drop& drop : plan.model().drops) {
    if (!states(drop)) continue;
    check_stop(options);
    const TensorInfo& info = plan.catalog().tensors[drop.source];
    std::vector<std::int64_t> found;
    if (info.shape.rank() == 1 && info.shape[0] == drop.states->rank())
      found = integers_of(plan, drop.source);
    if (std::ranges::equal(found, *drop.states,
                           [](auto one, auto other) { return std::cmp_equal(one, other); }))
      continue;
    throw Error(ErrorCode::unsupported,
                found.empty()
                    ? fmt::format("it should state a shape with {} dimensions, and is {} {}",
                                  drop.states->rank(), to_string(info.dtype), to_string(info.shape))
                    : fmt::format("it says that the tensor is {}, and its codes give {}",
                                  fmt::join(found, "x"), to_string(*drop.states)))
        .in_file(plan.catalog().files[info.file].path.text())
        .in_tensor(info.name)
        .hint(
            "leave out --dtype and --cast to keep the codes, or convert the model that they were "
            "made from");
  }
  check_unchanged(sources);
}

}  // namespace

void check_claims(const Plan& plan, const RunOptions& options) {
  check_same_as(plan, options);
  check_stated_shapes(plan, options);
  if (!plan.model().claimed()) return;
  const PairLayout layout = layout_of(plan);
  Reporter quiet;
  CompareResult found;
  try {
    found = compare_pair(layout, {}, options, quiet, held_bytes(plan));
  } catch (const Error& error) {  // here, what was stopped can be resumed
    if (error.code() == ErrorCode::cancelled) check_stop(options);
    throw;
  }
  std::erase_if(found.leaves, [&](const LeafDifference& item) {
    return is_fill_by_value(*plan.model().claimed(), item);
  });
  if (found.leaves.empty()) return;
  for (const LeafDifference& item : found.leaves) {
    if (item.damage.empty()) continue;
    const DiffDamage& damage = item.damage.front();
    throw Error(ErrorCode::corrupt, damage.message).in_file(damage.file).in_tensor(damage.tensor);
  }
  refuse(plan, found);
}

void check_claims_budget(const Plan& plan, std::uint64_t max_memory_bytes, unsigned threads) {
  if (!plan.model().claimed()) return;
  const PairLayout layout = layout_of(plan);
  make_pair_budget(layout.left(), layout.right(), max_memory_bytes, threads, held_bytes(plan));
}

std::uint64_t claims_need_bytes(const Plan& plan, unsigned threads) {
  if (!plan.model().claimed()) return 0;
  const PairLayout layout = layout_of(plan);
  return pair_need_bytes(layout.left(), layout.right(), threads, held_bytes(plan));
}

}  // namespace hfshard
