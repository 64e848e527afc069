#include "run/check/read_back.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/layout/band.h"
#include "run/check/reading.h"
#include "run/engine/budget.h"
#include "run/engine/cells.h"
#include "run/engine/disk_space.h"
#include "run/engine/pipeline.h"
#include "run/engine/region_rows.h"
#include "run/engine/sources.h"
#include "run/engine/stage_meter.h"
#include "run/engine/stop.h"
#include "run/engine/unit_filler.h"
#include "run/engine/unit_parts.h"
#include "run/engine/unpacked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

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
Budget budget_of(const Reading& reading, std::uint64_t beside_bytes, const RunOptions& options,
                 const StageMeter& meter, const std::vector<Digest128>& sums) {
  const std::uint64_t held = reading.opened().heap_bytes() + beside_bytes + 2 * heap_bytes(sums);
  return make_budget(reading.layout(), options.max_memory_bytes, meter.threads(), held);
}

VerifyResult run_units(Reading& reading, const Budget& budget, const RunOptions& options,
                       StageMeter& meter, const std::function<void(Tile&)>& apply,
                       std::vector<Digest128>& sums, UnpackedArrays* unpacked = nullptr) {
  const Layout& layout = reading.layout();
  const unsigned threads = meter.threads();
  Arena arena(budget.arena_bytes);
  CountingSink sink(meter, sums);
  TileCursor cursor(layout, 0, layout.end_address(), nullptr, arena.size_bytes());
  meter.reporter().started(layout.end_address(), 0);
  const auto admitted = [&](Tile& tile) {
    if (unpacked != nullptr) tile.uses = unpacked->make_ready(tile.units.front(), arena);
  };
  if (!run_pipeline(cursor, arena, admitted, apply, sink, {threads, options.stop, {}, &meter})) {
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
  const Leaf& leaf = layout.model().leaves[layout.group_of(ref).leaf];
  const std::size_t element = size_bits(leaf.dtype) / 8;
  const std::vector<Cell> cells = unit_cells(layout, ref);
  UnitPartCursor parts(layout, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout.model().transfers[part->transfer];
    const std::uint64_t row = row_length(transfer);
    const std::size_t in_bytes = size_bits(transfer.source_dtype) / 8;
    const std::uint64_t most =
        std::max<std::uint64_t>(layout.limits().segment_bytes / std::max(in_bytes, element), 1);
    const std::uint64_t rows =
        std::min(transfer.source_shape.numel(), std::max(row, most)) * element;
    SlotDigest digest{layout.model().digest_slot(part->transfer, part->source), {}};
    hash_region_rows(layout, ref, *part, cells, region, scratch.first(rows),
                     scratch.subspan(round_up(rows, 64)), digest.sum);
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

// Compares the structure of the tree with the hash in the manifest.
void check_structure(const Catalog& found, const std::string& recorded, VerifyResult& result) {
  if (recorded.empty()) return;
  if (found.structure != nullptr && structure_sha256(*found.structure) == recorded) return;
  result.differences.push_back({"", "", "",
                                "the tree's lists, dicts, empty nodes, strings or custom metadata "
                                "differ from what was written"});
}

// Compares the structure of the tree with the source's.
void compare_structure(const Catalog& found, const Model& model, VerifyResult& result) {
  if (model.structure == nullptr) return;
  const TreeStructure none;
  const TreeStructure& there = found.structure ? *found.structure : none;
  for (const StructureDifference& item : compare_structures(*model.structure, there)) {
    using Which = StructureDifference::Side;
    const std::string_view where = item.only == Which::a   ? " only in the source"
                                   : item.only == Which::b ? " only in the output"
                                                           : " (A is the source, B the output)";
    result.differences.push_back({item.path, "", "", fmt::format("{}{}", item.what, where)});
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
  Reading reading(opened, model, limits, meter, nullptr, &wanted);
  const Layout& layout = reading.layout();
  LeafDigests out;
  out.sums.resize(model->digest_slots());
  std::vector<std::atomic<bool>> damaged(model->leaves.size());
  const auto apply = [&](Tile& tile) {
    auto region = tile.region();
    const auto scratch = tile.scratch();
    for (const UnitRef& ref : tile.units) {
      const auto bytes = region.first(layout.region_bytes(ref));
      region = region.subspan(bytes.size());
      reading.for_each_part(ref, bytes, [&](const Reading::Part& part) {
        if (reading.read(part, part.bytes, scratch.subspan(reading.fill_scratch(part.leaf))))
          return;
        damaged[part.leaf].store(true);
        std::memset(part.bytes.data(), 0, part.bytes.size());
      });
      hash_unit(layout, ref, bytes, scratch, tile, reading.findings);
    }
  };
  const Budget budget = budget_of(reading, beside_bytes, options, meter, out.sums);
  out.result = run_units(reading, budget, options, meter, apply, out.sums);
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
  const Limits limits = options.limits != nullptr ? *options.limits : Limits();
  const LeafDigests found = digest_output(opened, manifest.model, read, limits,
                                          heap_bytes(wanted.sums), options, reporter);
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
  check_structure(opened.catalog(), manifest.structure_sha256, result);
  if (root_digest(model, wanted) != wanted.root) {
    result.differences.push_back(
        {"", "", "", "the recorded digests do not add up to the root digest"});
  }
  return result;
}

VerifyResult verify_source(const Checkpoint& opened, const Plan& plan, const RunOptions& options,
                           Reporter& reporter) {
  StageMeter meter(reporter, pipeline_threads(options));
  Reading reading(opened, plan.shared_model(), plan.limits(), meter, &plan.split());
  const Layout& layout = reading.layout();
  const Model& model = plan.model();
  OpenSources sources = open_sources(model.catalog());
  std::vector<Digest128> sums(model.digest_slots());
  const Budget budget = budget_of(reading, beside_model(plan), options, meter, sums);
  check_scratch_disk(options.scratch_directory, scratch_disk_bytes(layout, budget));
  UnpackedArrays unpacked(layout, options.scratch_directory, budget.unpack_bytes, sources, options);
  const UnitFiller filler(layout, sources, &meter);
  const auto compare = [&](const Reading::Part& part, std::span<std::byte> scratch) {
    const std::span<const std::byte> wanted = part.bytes;
    const Leaf& leaf = model.leaves[part.leaf];
    const auto found = scratch.subspan(reading.fill_scratch(part.leaf), wanted.size());
    const auto rest =
        scratch.subspan(reading.fill_scratch(part.leaf) + round_up(wanted.size(), 64));
    if (!reading.read(part, found, rest)) return;
    if (std::memcmp(found.data(), wanted.data(), wanted.size()) == 0) return;
    const auto at =
        static_cast<std::uint64_t>(std::ranges::mismatch(found, wanted).in1 - found.begin());
    const Shape first = reading.index_of(part, at);
    reading.findings.add({leaf.name,
                          part.name(),
                          "",
                          fmt::format("differs from the source's, first at element [{}]",
                                      fmt::join(first.begin(), first.end(), ", ")),
                          "",
                          {},
                          first});
  };
  const auto apply = [&](Tile& tile) {
    auto region = tile.region();
    const auto scratch = tile.scratch();
    for (const UnitRef& ref : tile.units) {
      const std::uint32_t leaf = layout.group_of(ref).leaf;
      const auto bytes = region.first(layout.region_bytes(ref));
      region = region.subspan(bytes.size());
      filler.fill_only(ref, bytes, scratch.first(reading.fill_scratch(leaf)));
      reading.for_each_part(ref, bytes, [&](const Reading::Part& part) { compare(part, scratch); });
    }
  };
  VerifyResult result = run_units(reading, budget, options, meter, apply, sums, &unpacked);
  check_unchanged(sources);  // differences from two versions at once would mean nothing
  add_unknown_leaves(opened, model, "the source has nothing for this leaf", result);
  compare_structure(opened.catalog(), model, result);
  return result;
}

}  // namespace hfshard
