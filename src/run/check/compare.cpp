#include "run/check/compare.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/arena.h"
#include "run/engine/budget.h"
#include "run/engine/cells.h"
#include "run/engine/disk_space.h"
#include "run/engine/pipeline.h"
#include "run/engine/sources.h"
#include "run/engine/stage_meter.h"
#include "run/engine/stop.h"
#include "run/engine/unit_filler.h"
#include "run/engine/unpacked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool is_damage(const Error& error) {
  return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_found;
}

DiffDamage damage_of(const Error& error, bool in_left) {
  return {in_left, error.tensor(), error.sentence(), error.file(), error.range(), 1};
}

// The differences from all threads.
class LeafFindings {
 public:
  void add(std::uint32_t leaf, const ElementDifferences& found, std::span<const std::byte> left,
           std::span<const std::byte> right) {
    const std::lock_guard lock(mutex_);
    LeafDifference& item = item_of(leaf);
    if (found.first < item.elements.first) {
      item.left.assign(left.begin(), left.end());
      item.right.assign(right.begin(), right.end());
    }
    item.elements += found;
  }
  // Keeps the first of equal damages from several units, and counts the others.
  void add(std::uint32_t leaf, const DiffDamage& damage) {
    const std::lock_guard lock(mutex_);
    std::vector<DiffDamage>& known = item_of(leaf).damage;
    const auto same = std::ranges::find_if(known, [&](const DiffDamage& item) {
      return item.in_a == damage.in_a && item.tensor == damage.tensor &&
             item.message == damage.message && item.file == damage.file;
    });
    if (same == known.end()) return known.push_back(damage);
    ++same->places;
    if (same->range && damage.range && damage.range->begin < same->range->begin)
      same->range = damage.range;
  }
  std::vector<LeafDifference> take() {
    std::vector<LeafDifference> out;
    for (auto& [leaf, item] : items_) out.push_back(std::move(item));
    return out;
  }

 private:
  LeafDifference& item_of(std::uint32_t leaf) {
    LeafDifference& item = items_[leaf];
    item.leaf = leaf;
    return item;
  }

  std::mutex mutex_;
  std::map<std::uint32_t, LeafDifference> items_;
};

// One of the two: reads its part of units.
class Side {
 public:
  Side(const Layout& layout, bool is_left, std::uint64_t unpack_bytes, const RunOptions& options,
       StageMeter& meter)
      : layout_(layout),
        is_left_(is_left),
        sources_(open_sources(layout.catalog(), options.io)),
        unpacked_(layout, options.scratch_directory, layout.unpacked().empty() ? 0 : unpack_bytes,
                  sources_, options),
        filler_(layout, sources_, &meter) {}

  // In plan order, by one thread. An array that cannot be unpacked is found when it is used.
  std::vector<std::shared_ptr<const void>> make_ready(const UnitRef& ref, Arena& arena) {
    const std::vector<std::uint32_t> wanted = unpacked_by(layout_, ref);
    if (wanted.empty() || damage_at(wanted)) return {};
    try {
      return unpacked_.make_ready(ref, arena);
    } catch (const Error& error) {  // the other arrays are still compared
      if (!is_damage(error)) throw;
      const auto named = layout_.catalog().find(error.tensor());
      const std::lock_guard lock(mutex_);
      for (const std::uint32_t part : wanted) {
        if (!named || form_of_part(layout_.unpacked(), part).array == *named)
          damaged_.emplace(part, damage_of(error, is_left_));
      }
    }
    return {};
  }

  // False, and told, if it cannot be read.
  bool fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
            LeafFindings& findings) const {
    const std::uint32_t leaf = layout_.group_of(ref).leaf;
    if (const auto damage = damage_at(unpacked_by(layout_, ref))) {
      findings.add(leaf, *damage);
      return false;
    }
    try {
      filler_.fill_only(ref, region, scratch);
      return true;
    } catch (const Error& error) {  // all damage is listed, not only the first
      if (!is_damage(error)) throw;
      findings.add(leaf, damage_of(error, is_left_));
      return false;
    }
  }

  void check() const { check_unchanged(sources_); }

 private:
  std::optional<DiffDamage> damage_at(const std::vector<std::uint32_t>& parts) const {
    const std::lock_guard lock(mutex_);
    for (const std::uint32_t part : parts) {
      if (const auto found = damaged_.find(part); found != damaged_.end()) return found->second;
    }
    return std::nullopt;
  }

  const Layout& layout_;
  bool is_left_;
  OpenSources sources_;
  UnpackedArrays unpacked_;
  UnitFiller filler_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, DiffDamage> damaged_;  // what could not be unpacked
};

// Where an element of a packed box lies in the leaf.
std::uint64_t in_leaf(const Leaf& leaf, const Box& box, std::uint64_t element) {
  const Shape strides = leaf.shape.strides();
  std::uint64_t out = 0;
  for (std::size_t d = leaf.shape.rank(); d-- > 0;) {
    out += (box.begin[d] + element % box.extent[d]) * strides[d];
    element /= box.extent[d];
  }
  return out;
}

class CountingProgress final : public TileSink {
 public:
  explicit CountingProgress(StageMeter& meter) : meter_(meter) {}
  void store(const Tile&, std::span<const std::byte>) override {}
  void commit(Tile& tile) override { meter_.advanced(tile.region_bytes()); }

 private:
  StageMeter& meter_;
};

class Comparing {
 public:
  Comparing(const PairLayout& pair, const DiffTolerance& tolerance, std::uint64_t unpack_bytes,
            const RunOptions& options, StageMeter& meter)
      : pair_(pair),
        tolerance_(tolerance),
        left_(pair.left(), true, unpack_bytes, options, meter),
        right_(pair.right(), false, unpack_bytes, options, meter) {}

  void admit(Tile& tile, Arena& arena) {
    tile.uses = left_.make_ready(tile.units.front(), arena);
    std::ranges::move(right_.make_ready(pair_.right_of(tile.units.front()), arena),
                      std::back_inserter(tile.uses));
  }

  void apply(const Tile& tile) {
    auto region = tile.region();
    const auto scratch = tile.scratch();
    for (const UnitRef& ref : tile.units) {
      const std::uint32_t leaf = pair_.left().group_of(ref).leaf;
      const auto bytes = region.first(pair_.left().region_bytes(ref));
      region = region.subspan(bytes.size());
      const auto working = scratch.first(pair_.fill_scratch(leaf));
      const auto other = scratch.subspan(working.size(), bytes.size());
      const bool has_left = left_.fill(ref, bytes, working, findings_);
      if (right_.fill(pair_.right_of(ref), other, working, findings_) && has_left)
        compare(ref, bytes, other);
    }
  }

  CompareResult finish() {
    left_.check();  // differences from two versions at once would mean nothing
    right_.check();
    CompareResult out;
    for (const Leaf& leaf : pair_.left().model().leaves)
      out.compared_bytes += packed_bytes(leaf.dtype, leaf.shape.numel());
    out.leaves = findings_.take();
    return out;
  }

 private:
  void compare(const UnitRef& ref, std::span<const std::byte> left,
               std::span<const std::byte> right) {
    const std::uint32_t index = pair_.left().group_of(ref).leaf;
    const Leaf& leaf = pair_.left().model().leaves[index];
    const std::size_t element = size_bits(leaf.dtype) / 8;
    for (const Cell& cell : unit_cells(pair_.left(), ref)) {
      const std::uint64_t size = packed_bytes(leaf.dtype, cell.full.extent.numel());
      const auto a = left.subspan(cell.offset_bytes, size);
      const auto b = right.subspan(cell.offset_bytes, size);
      ElementDifferences found = compare_elements(leaf.dtype, tolerance_, a, b);
      if (found.count == 0) continue;
      const std::uint64_t first = found.first * element;
      found.first = in_leaf(leaf, cell.full, found.first);
      findings_.add(index, found, a.subspan(first, element), b.subspan(first, element));
    }
  }

  const PairLayout& pair_;
  const DiffTolerance& tolerance_;
  Side left_;
  Side right_;
  LeafFindings findings_;
};

}  // namespace

CompareResult compare_pair(const PairLayout& pair, const DiffTolerance& tolerance,
                           const RunOptions& options, Reporter& reporter,
                           std::uint64_t held_bytes) {
  const unsigned threads = pipeline_threads(options);
  StageMeter meter(reporter, threads);
  const Budget budget =
      make_pair_budget(pair.left(), pair.right(), options.max_memory_bytes, threads, held_bytes);
  check_scratch_disk(options.scratch_directory, scratch_disk_bytes(pair.left(), budget) +
                                                    scratch_disk_bytes(pair.right(), budget));
  Arena arena(budget.arena_bytes);
  Comparing comparing(pair, tolerance, budget.unpack_bytes, options, meter);
  CountingProgress sink(meter);
  const Layout& layout = pair.left();
  TileCursor cursor(layout, 0, layout.end_address(), nullptr, arena.size_bytes());
  reporter.started(layout.end_address(), 0);
  const auto admitted = [&](Tile& tile) { comparing.admit(tile, arena); };
  const auto apply = [&](Tile& tile) { comparing.apply(tile); };
  if (!run_pipeline(cursor, arena, admitted, apply, sink, {threads, options.stop, {}, &meter}))
    throw Error(ErrorCode::cancelled, "stopped before everything was compared");
  return comparing.finish();
}

}  // namespace hfshard
