#include "run/checking/read_back.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/text.h"
#include "mapping/scheme_defaults.h"
#include "ops/move.h"
#include "ops/read_piece.h"
#include "plan/layout/band.h"
#include "run/moving/budget.h"
#include "run/moving/cells.h"
#include "run/moving/pipeline.h"
#include "run/moving/row_hasher.h"
#include "run/moving/sources.h"
#include "run/moving/stage_meter.h"
#include "run/moving/stop.h"
#include "run/moving/unit_filler.h"
#include "run/moving/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string chunk_name(const Shape& chunk) {
  std::vector<std::string> parts;
  for (const std::uint64_t index : chunk) parts.push_back(std::to_string(index));
  return join(parts, ", ");
}

// Differences from all threads.
class Findings {
 public:
  void add(Difference difference) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(difference));
  }
  std::vector<Difference> take() {
    std::ranges::sort(items_, [](const Difference& a, const Difference& b) {
      return std::tie(a.leaf, a.chunk, a.tensor, a.what) <
             std::tie(b.leaf, b.chunk, b.tensor, b.what);
    });
    return std::move(items_);
  }

 private:
  std::mutex mutex_;
  std::vector<Difference> items_;
};

// Which opened leaf holds each planned one; leaves that differ in shape, dtype or presence are
// findings.
std::vector<std::optional<std::uint32_t>> match_leaves(const Checkpoint& opened, const Model& model,
                                                       Findings& findings) {
  std::vector<std::optional<std::uint32_t>> out;
  for (const Leaf& leaf : model.leaves) {
    const auto found = opened.catalog().find(leaf.name);
    const TensorInfo* at = found ? &opened.catalog().tensors[*found] : nullptr;
    if (at == nullptr) {
      findings.add({leaf.name, "", "", "the leaf is missing"});
      out.emplace_back();
    } else if (!(at->shape == leaf.shape) || at->dtype != leaf.dtype) {
      findings.add(
          {leaf.name, "", "",
           fmt::format("the leaf is {} {}, not {} {}", to_string(at->dtype), to_string(at->shape),
                       to_string(leaf.dtype), to_string(leaf.shape))});
      out.emplace_back();
    } else {
      out.push_back(found);
    }
  }
  return out;
}

// Everything both ways of verifying share: the model laid out as the output is really cut, and
// reading its chunks.
class Reading {
 public:
  // `hold_chunk`: a chunk beside the region (to compare with it). `wanted`: leaves to be read; all
  // without it.
  Reading(const Checkpoint& opened, const std::shared_ptr<const Model>& model, const Limits& limits,
          StageMeter& meter, bool hold_chunk, const std::vector<bool>* wanted = nullptr)
      : opened_(opened),
        meter_(meter),
        leaf_of_(match_leaves(opened, *model, findings)),
        layout_(model, cut(*model, reading_limits(limits), hold_chunk, wanted),
                reading_limits(limits), false) {}

  const Layout& layout() const noexcept { return layout_; }

  // Reads one chunk; a damaged or missing one is a finding and false.
  bool read(std::uint32_t leaf, const Shape& chunk, std::span<std::byte> out,
            std::span<std::byte> scratch) {
    try {
      const StageSpan span(&meter_, Busy::read);
      read_row_major(opened_, *leaf_of_[leaf], chunk, out, scratch);
      return true;
    } catch (const Error& error) {  // verify lists all damage instead of stopping at the first
      if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
      std::string what = error.sentence();
      if (!error.file().empty()) what += fmt::format(" ({})", error.file());
      findings.add({layout_.model().leaves[leaf].name, chunk_name(chunk), "", what});
      return false;
    }
  }

  std::uint64_t fill_scratch(std::uint32_t leaf) const { return fill_scratch_[leaf]; }

  const Checkpoint& opened() const noexcept { return opened_; }

  Findings findings;

 private:
  // Chunks are read one by one, into regions of any size.
  static Limits reading_limits(Limits limits) {
    limits.alignment_bytes = 64;
    limits.slab_bytes = UINT64_MAX / 4;
    return limits;
  }

  // The leaves as they are cut in the output.
  CutLeaves cut(const Model& model, const Limits& limits, bool hold_chunk,
                const std::vector<bool>* wanted) {
    CutLeaves out;
    for (std::uint32_t i = 0; i < model.leaves.size(); ++i) {
      const Leaf& leaf = model.leaves[i];
      Grid grid;
      grid.chunk = leaf_of_[i] ? opened_.catalog().grid_of(*leaf_of_[i]).chunk : leaf.shape;
      for (std::uint64_t* at = &grid.chunk[0]; at != &grid.chunk[0] + grid.chunk.rank(); ++at) {
        *at = std::max<std::uint64_t>(*at, 1);
      }
      grid.inner = grid.shard = grid.chunk;
      const PieceForm form{packed_bytes(leaf.dtype, grid.chunk.numel()), 1, 0, 0};
      UnitForm unit = make_unit_form(leaf, grid, model.leading_to(i), form, limits);
      fill_scratch_.push_back(round_up(unit.scratch_bytes, 64));
      unit.scratch_bytes = fill_scratch_.back() + (hold_chunk ? round_up(form.cell_bytes, 64) : 0) +
                           (leaf_of_[i] ? row_major_scratch_bytes(opened_, *leaf_of_[i]) : 0);
      if (!leaf_of_[i] || (wanted != nullptr && !(*wanted)[i])) unit.groups = 0;
      out.grids.push_back(grid);
      out.units.push_back(unit);
    }
    return out;
  }

  const Checkpoint& opened_;
  StageMeter& meter_;
  std::vector<std::optional<std::uint32_t>> leaf_of_;
  std::vector<std::uint64_t> fill_scratch_;
  Layout layout_;
};

class CountingSink final : public TileSink {
 public:
  CountingSink(StageMeter& meter, std::vector<Digest128>& sums) : meter_(meter), sums_(sums) {}
  void store(const Tile&, std::span<const std::byte>) override {}
  void commit(Tile& tile) override {
    for (const SlotDigest& digest : tile.digests) sums_[digest.slot] += digest.sum;
    meter_.advanced(tile.region_bytes());
  }

 private:
  StageMeter& meter_;
  std::vector<Digest128>& sums_;
};

// How many source tensors the leaves that are read are made of: one that feeds several counts once.
std::uint64_t tensors_read(const Layout& layout) {
  const Model& model = layout.model();
  std::vector<bool> feeds(model.catalog().tensors.size());
  for (const Transfer& transfer : model.transfers) {
    if (layout.units()[transfer.target].groups == 0) continue;
    for (const std::uint32_t source : transfer.sources) feeds[source] = true;
  }
  return static_cast<std::uint64_t>(std::ranges::count(feeds, true));
}

// `beside_bytes`: heap that the caller holds beside the checkpoint and the model.
VerifyResult run_units(Reading& reading, std::uint64_t beside_bytes, const RunOptions& options,
                       StageMeter& meter, const std::function<void(Tile&)>& apply,
                       std::vector<Digest128>& sums) {
  const Layout& layout = reading.layout();
  const unsigned threads = meter.threads();
  const std::uint64_t held = reading.opened().heap_bytes() + beside_bytes + 2 * heap_bytes(sums);
  const Budget budget = make_budget(layout, options.max_memory_bytes, threads, held);
  Arena arena(budget.arena_bytes);
  CountingSink sink(meter, sums);
  TileCursor cursor(layout, 0, layout.end_address(), nullptr, arena.size_bytes());
  meter.reporter().started(layout.end_address(), 0);
  const auto nothing = [](Tile&) {};
  if (!run_pipeline(cursor, arena, nothing, apply, sink, {threads, options.stop, {}, &meter})) {
    throw Error(ErrorCode::cancelled, "stopped before everything was verified");
  }
  VerifyResult result;
  result.chunks = layout.totals().chunks;
  for (std::uint32_t i = 0; i < layout.units().size(); ++i) {
    if (layout.units()[i].groups > 0) {
      result.checked_bytes +=
          packed_bytes(layout.model().leaves[i].dtype, layout.model().leaves[i].shape.numel());
    }
  }
  result.tensors = tensors_read(layout);
  result.differences = reading.findings.take();
  return result;
}

// Every element of a fill in this unit has its constant.
void check_fills(const Layout& layout, const UnitRef& ref, const std::vector<Cell>& cells,
                 std::span<const std::byte> region, Findings& findings) {
  const std::uint32_t index = layout.group_of(ref).leaf;
  const Leaf& leaf = layout.model().leaves[index];
  const std::size_t element = size_bits(leaf.dtype) / 8;
  std::vector<IndexMap> pieces;
  for (const std::uint32_t fill : layout.model().fills_of(index)) {
    const Fill& item = layout.model().fills[fill];
    const std::vector<std::byte> wanted = scalar_bytes(item.scalar, leaf.dtype);
    bool wrong = false;
    for (const Cell& cell : cells) {
      pieces.clear();
      restrict_to(item.map, leaf.shape, cell.clipped, pieces);
      for (const IndexMap& piece : pieces) {
        const IndexMap local = rebase_to_box(piece, leaf.shape, cell.full);
        RowCursor elements(inverse(local), 1);
        while (const IndexMap* at = elements.next()) {
          const auto offset = cell.offset_bytes + at->src_base * element;
          wrong = wrong || std::memcmp(region.data() + offset, wanted.data(), element) != 0;
        }
      }
    }
    if (wrong) {
      findings.add({leaf.name, "", "",
                    fmt::format("elements that {} fills are not {}",
                                layout.model().rules[item.rule], item.scalar)});
    }
  }
}

// Hashes the unit's rows in source order, from its chunks.
void hash_unit(const Layout& layout, const UnitRef& ref, std::span<const std::byte> region,
               std::span<std::byte> scratch, Tile& tile, Findings& findings) {
  const std::uint32_t index = layout.group_of(ref).leaf;
  const Leaf& leaf = layout.model().leaves[index];
  const UnitForm& form = layout.units()[index];
  const std::size_t element = size_bits(leaf.dtype) / 8;
  const std::vector<Cell> cells = unit_cells(layout, ref);
  std::vector<IndexMap> pieces;
  UnitPartCursor parts(layout, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout.model().transfers[part->transfer];
    const std::uint64_t row = row_length(transfer.source_shape);
    const std::size_t in_bytes = size_bits(transfer.source_dtype) / 8;
    const std::uint64_t most =
        std::max<std::uint64_t>(layout.limits().segment_bytes / std::max(in_bytes, element), 1);
    const RowHasher hasher(transfer, leaf.dtype);
    SlotDigest digest{layout.model().digest_slot(part->transfer, part->source), {}};
    BandCursor bands(part->map, row, most, 0);
    while (const Band* band = bands.next()) {
      const std::uint64_t size = band->length * element;
      IndexMap local = band->map;
      local.src_base -= band->begin;
      gather(leaf, cells, form.form.cell_bytes, local, region, scratch.first(size), pieces);
      hasher.add(band->map, band->begin, scratch.first(size), scratch.subspan(round_up(size, 64)),
                 digest.sum);
    }
    tile.digests.push_back(digest);
  }
  check_fills(layout, ref, cells, region, findings);
}

// Leaves that the model does not have, nor the scheme adds.
void add_unknown_leaves(const Checkpoint& opened, const Model& model, const std::string& what,
                        VerifyResult& result) {
  const std::string step = tree_extras(model.scheme).step;
  for (const TensorInfo& leaf : opened.catalog().tensors) {
    const auto known = std::ranges::lower_bound(model.leaves, leaf.name, {}, &Leaf::name);
    if (known != model.leaves.end() && known->name == leaf.name) continue;
    if (leaf.name != step) result.differences.push_back({leaf.name, "", "", what});
  }
}

// Heap of a plan beside its model, which the layout of what is read shares.
std::uint64_t beside_model(const Plan& plan) {
  return plan.heap_bytes() - plan.model().heap_bytes();
}

// Linked leaves of a plan.
std::vector<bool> linked_leaves(const Plan& plan) {
  std::vector<bool> out;
  for (std::size_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf)
    out.push_back(plan.grids()[leaf].linked);
  return out;
}

}  // namespace

LeafDigests digest_output(const Checkpoint& opened, const std::shared_ptr<const Model>& model,
                          const std::vector<bool>& wanted, const Limits& limits,
                          std::uint64_t beside_bytes, const RunOptions& options,
                          Reporter& reporter) {
  StageMeter meter(reporter, pipeline_threads(options));
  Reading reading(opened, model, limits, meter, false, &wanted);
  const Layout& layout = reading.layout();
  LeafDigests out;
  out.sums.resize(model->digest_slots());
  std::vector<std::atomic<bool>> damaged(model->leaves.size());
  const auto apply = [&](Tile& tile) {
    auto region = tile.block.bytes().first(tile.region_bytes());
    const auto scratch = tile.block.bytes().subspan(tile.region_bytes());
    for (const UnitRef& ref : tile.units) {
      const std::uint32_t leaf = layout.group_of(ref).leaf;
      const UnitForm& form = layout.units()[leaf];
      const auto part = region.first(form.region_bytes());
      std::uint64_t offset = 0;
      for (const Shape& chunk : unit_chunks(layout, ref)) {
        const auto bytes = part.subspan(offset, form.form.cell_bytes);
        if (!reading.read(leaf, chunk, bytes, scratch.subspan(reading.fill_scratch(leaf)))) {
          damaged[leaf].store(true);
          std::memset(bytes.data(), 0, bytes.size());
        }
        offset += form.stride_bytes;
      }
      hash_unit(layout, ref, part, scratch, tile, reading.findings);
      region = region.subspan(form.region_bytes());
    }
  };
  out.result = run_units(reading, beside_bytes, options, meter, apply, out.sums);
  for (std::size_t leaf = 0; leaf < damaged.size(); ++leaf) {
    out.damaged.push_back(damaged[leaf].load());
    out.incomplete.push_back(layout.units()[leaf].groups == 0);
  }
  return out;
}

void digest_linked(const Checkpoint& opened, const Plan& plan, const RunOptions& options,
                   std::vector<Digest128>& sums, Reporter& reporter) {
  const Model& model = plan.model();
  const std::vector<bool> wanted = linked_leaves(plan);
  const LeafDigests found = [&] {
    try {
      return digest_output(opened, plan.shared_model(), wanted, plan.limits(), beside_model(plan),
                           options, reporter);
    } catch (const Error& error) {  // here, what was stopped can be resumed
      if (error.code() == ErrorCode::cancelled) check_stop(options);
      throw;
    }
  }();
  if (!found.result.differences.empty()) {
    const Difference& first = found.result.differences.front();
    throw Error(ErrorCode::corrupt, first.what)
        .in_file(opened.catalog().location)
        .in_tensor(first.leaf);
  }
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t) {
    if (!wanted[model.transfers[t].target]) continue;
    for (std::uint64_t slot = model.digest_slot(t, 0); slot < model.digest_slot(t + 1, 0); ++slot)
      sums[slot] = found.sums[slot];
  }
}

VerifyResult verify_digests(const Checkpoint& opened, const Manifest& manifest,
                            const RunOptions& options, Reporter& reporter) {
  const Model& model = *manifest.model;
  const OutputDigests& wanted = manifest.digests;
  std::vector<bool> read(model.leaves.size(), true);
  std::uint64_t unrecorded = 0;
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t) {
    const std::uint32_t leaf = model.transfers[t].target;
    if (wanted.recorded[t] || !read[leaf]) continue;
    read[leaf] = false;
    const Leaf& info = model.leaves[leaf];
    unrecorded += packed_bytes(info.dtype, info.shape.numel());
  }
  const LeafDigests found =
      digest_output(opened, manifest.model, read, {}, heap_bytes(wanted.sums), options, reporter);
  VerifyResult result = found.result;
  result.unrecorded_bytes = unrecorded;
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t) {
    const Transfer& transfer = model.transfers[t];
    const Leaf& leaf = model.leaves[transfer.target];
    if (found.damaged[transfer.target] || found.incomplete[transfer.target])
      continue;  // named already
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
      const std::uint64_t slot = model.digest_slot(t, i);
      if (found.sums[slot] == wanted.sums[slot]) continue;
      result.differences.push_back(
          {leaf.name, "", model.catalog().tensors[transfer.sources[i]].name,
           fmt::format("digest {} differs from the recorded {}", to_hex(found.sums[slot]),
                       to_hex(wanted.sums[slot]))});
    }
  }
  add_unknown_leaves(opened, model, "the manifest does not have this leaf", result);
  if (root_digest(model, wanted.sums, wanted.recorded) != wanted.root) {
    result.differences.push_back(
        {"", "", "", "the recorded digests do not add up to the root digest"});
  }
  return result;
}

VerifyResult verify_source(const Checkpoint& opened, const Plan& plan, const RunOptions& options,
                           Reporter& reporter) {
  StageMeter meter(reporter, pipeline_threads(options));
  Reading reading(opened, plan.shared_model(), plan.limits(), meter, true);
  const Layout& layout = reading.layout();
  const Model& model = plan.model();
  const OpenSources sources = open_sources(model.catalog());
  const UnitFiller filler(layout, sources, &meter);
  std::vector<Digest128> sums(model.digest_slots());
  const auto compare = [&](std::uint32_t leaf, const Shape& chunk,
                           std::span<const std::byte> wanted, std::span<std::byte> scratch) {
    const auto found = scratch.subspan(reading.fill_scratch(leaf), wanted.size());
    const auto rest = scratch.subspan(reading.fill_scratch(leaf) + round_up(wanted.size(), 64));
    if (!reading.read(leaf, chunk, found, rest)) return;
    if (std::memcmp(found.data(), wanted.data(), wanted.size()) == 0) return;
    const auto at = std::ranges::mismatch(found, wanted).in1 - found.begin();
    const std::size_t element = size_bits(model.leaves[leaf].dtype) / 8;
    reading.findings.add({model.leaves[leaf].name, chunk_name(chunk), "",
                          fmt::format("differs from the source's, first at element {} of the chunk",
                                      static_cast<std::size_t>(at) / element)});
  };
  const auto apply = [&](Tile& tile) {
    auto region = tile.block.bytes().first(tile.region_bytes());
    const auto scratch = tile.block.bytes().subspan(tile.region_bytes());
    std::vector<SlotDigest> unused;
    for (const UnitRef& ref : tile.units) {
      const std::uint32_t leaf = layout.group_of(ref).leaf;
      const UnitForm& form = layout.units()[leaf];
      const auto part = region.first(form.region_bytes());
      filler.fill(ref, part, scratch.first(reading.fill_scratch(leaf)), unused);
      std::uint64_t offset = 0;
      for (const Shape& chunk : unit_chunks(layout, ref)) {
        compare(leaf, chunk, part.subspan(offset, form.form.cell_bytes), scratch);
        offset += form.stride_bytes;
      }
      region = region.subspan(form.region_bytes());
    }
  };
  VerifyResult result = run_units(reading, beside_model(plan), options, meter, apply, sums);
  check_unchanged(sources);  // differences from two versions at once would mean nothing
  add_unknown_leaves(opened, model, "the source has nothing for this leaf", result);
  return result;
}

}  // namespace hfshard
