// Fills the units of plans with random rules, grids and sizes one by one. Compares them with a slow
// element by element reference. Digests may depend only on the rules and the bytes.

#include "run/engine/unit_filler.h"

#include <cstring>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "ops/value.h"
#include "plan/compile/compile_model.h"
#include "run/engine/cells.h"
#include "support/safetensors_builder.h"
#include "unit/ops/reference.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;

constexpr std::uint64_t kSeed = 20261;
constexpr int kRounds = 60;
constexpr std::uint64_t kPoison = 0xa5;

std::uint64_t leading_numel(const Shape& shape, std::size_t from) {
  std::uint64_t out = 1;
  for (std::size_t d = from; d < shape.rank(); ++d) out *= shape[d];
  return out;
}

// Inserts a stack axis of extent `extent` before `axis` into a map's target side.
IndexMap with_stack(IndexMap map, std::uint64_t stride, std::uint64_t extent) {
  map.dst_base = map.dst_base / stride * stride * extent + map.dst_base % stride;
  for (Digit& digit : map.digits) {
    const auto step = static_cast<std::uint64_t>(digit.dst_step);
    if (step >= stride) digit.dst_step = static_cast<std::int64_t>(step * extent);
  }
  return map;
}

// A random model over one safetensors file, whose bytes are also in memory for the reference.
struct RandomModel {
  CompiledModel model;
  SafetensorsBuilder builder;
  std::vector<std::vector<std::string>> bytes;  // per transfer, per source
  Random random;

  explicit RandomModel(std::uint64_t seed) : random(seed) {
    model.family = "test";
    model.scheme = "test";
    model.rules = {"test#/0"};
    const std::uint64_t leaves = pick(random, 1, 4);
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) add_leaf(leaf);
  }

  void add_leaf(std::uint32_t index) {
    const reference::Rule rule = reference::random_rule(random, 3, 6);
    Leaf leaf;
    leaf.name = "leaf" + std::to_string(index);
    leaf.shape = rule.dst_shape;
    const bool twice = leaf.shape.rank() > 0 && random() % 2 == 0;
    std::vector<IndexMap> maps{rule.map};
    if (twice) {
      maps.push_back(rule.map);
      maps.back().dst_base += leaf.shape.numel();
      leaf.shape[0] *= 2;
    }
    std::vector<Loop> loops;
    if (random() % 2 == 0) {
      const std::size_t axis = pick(random, 0, leaf.shape.rank());
      const std::uint64_t extent = pick(random, 1, 4);
      const std::uint64_t stride = leading_numel(leaf.shape, axis);
      for (IndexMap& map : maps) map = with_stack(map, stride, extent);
      leaf.shape.insert(axis, extent);
      loops.push_back({extent, static_cast<std::int64_t>(stride)});
    }
    constexpr DType kSources[] = {DType::u8, DType::bf16, DType::f32};
    const DType source = kSources[random() % 3];
    leaf.dtype = source == DType::bf16 && random() % 2 == 0 ? DType::f32 : source;
    name_an_axis(leaf);
    model.leaves.push_back(leaf);
    add_transfer(index, rule.src_shape, source, maps[0], loops);
    if (!twice) return;
    if (random() % 2 == 0 || !loops.empty()) {
      add_transfer(index, rule.src_shape, source, maps[1], loops);
    } else {
      const double signed_one = index % 2 == 0 ? 2.5 : -2.5;
      const double scalar = source == DType::u8 ? 0.0 : signed_one;
      model.fills.push_back({index, 0, maps[1], scalar});
    }
  }

  // The mesh splits the first even axis.
  void name_an_axis(Leaf& leaf) {
    leaf.axes.assign(leaf.shape.rank(), "");
    for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
      if (leaf.shape[d] % 2 != 0) continue;
      leaf.axes[d] = "split";
      return;
    }
  }

  void add_transfer(std::uint32_t leaf, const Shape& shape, DType dtype, const IndexMap& map,
                    const std::vector<Loop>& loops) {
    Transfer transfer;
    transfer.target = leaf;
    transfer.loops = loops;
    transfer.source_shape = shape;
    transfer.source_dtype = dtype;
    transfer.map = map;
    const std::uint64_t count = loops.empty() ? 1 : loops[0].extent;
    bytes.emplace_back();
    for (std::uint64_t k = 0; k < count; ++k) {
      std::string data(packed_bytes(dtype, shape.numel()), '\0');
      for (char& byte : data) byte = static_cast<char>(random() & 0x3f);  // no NaN
      // Names have the order of addition, so that catalog indices are known.
      char name[32];
      std::snprintf(name, sizeof name, "t%03zu", tensors_);
      builder.tensor(name, dtype, shape, data);
      transfer.sources.push_back(static_cast<std::uint32_t>(tensors_++));
      bytes.back().push_back(std::move(data));
    }
    model.transfers.push_back(std::move(transfer));
  }

  // Returns the bytes of every leaf. Elements that no rule writes are absent.
  std::vector<std::map<std::uint64_t, std::string>> expected() const {
    std::vector<std::map<std::uint64_t, std::string>> out(model.leaves.size());
    for (std::size_t t = 0; t < model.transfers.size(); ++t) {
      const Transfer& transfer = model.transfers[t];
      const Leaf& leaf = model.leaves[transfer.target];
      const std::size_t element = size_bits(leaf.dtype) / 8;
      for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
        const std::string& raw = bytes[t][s];
        std::string ready(packed_bytes(leaf.dtype, transfer.source_shape.numel()), '\0');
        apply_value({}, transfer.source_dtype, leaf.dtype, transfer.source_shape.numel(),
                    std::as_bytes(std::span(raw)), std::as_writable_bytes(std::span(ready)));
        const std::uint64_t shift =
            transfer.loops.empty() ? 0 : s * static_cast<std::uint64_t>(transfer.loops[0].dst_step);
        for (const auto& [src, dst] : reference::pairs(transfer.map))
          out[transfer.target][dst + shift] = ready.substr(src * element, element);
      }
    }
    for (const Fill& fill : model.fills) {
      const DType dtype = model.leaves[fill.target].dtype;
      const std::vector<std::byte> value = scalar_bytes(fill.scalar, dtype);
      std::string text(value.size(), '\0');
      std::memcpy(text.data(), value.data(), value.size());
      for (const auto& pair : reference::pairs(fill.map)) out[fill.target][pair.second] = text;
    }
    return out;
  }

 private:
  std::size_t tensors_ = 0;
};

struct Cut {
  PlanOptions options;
  Limits limits;
};

Cut random_cut(Random& random) {
  Cut cut;
  cut.options.chunk_bytes = std::uint64_t{8} << pick(random, 0, 6);
  cut.options.meshes = {random() % 2 == 0 ? "fsdp=2" : "fsdp=1"};
  cut.options.rules_text = R"([["split", ["fsdp"]]])";
  cut.options.encoding.checksum = random() % 2 == 0;
  cut.limits.floor_bytes = std::uint64_t{1} << pick(random, 3, 8);
  cut.limits.run_bytes = std::uint64_t{1} << pick(random, 2, 6);
  cut.limits.merge_bytes = std::uint64_t{1} << pick(random, 6, 14);
  cut.limits.segment_bytes = std::uint64_t{1} << pick(random, 3, 9);
  cut.limits.file_min_bytes = cut.limits.file_max_bytes = std::uint64_t{1} << pick(random, 6, 12);
  cut.limits.alignment_bytes = std::uint64_t{1} << pick(random, 3, 8);
  cut.limits.outer_shards = random() % 2 == 0 ? 1 : 32;
  return cut;
}

Plan cut_plan(const Catalog& catalog, const CompiledModel& model, const Cut& cut) {
  const Format& target = format_of("orbax");
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, cut.options.encoding);
  };
  return build_plan(make_model(catalog, model), cut.options, form, target.layout(), cut.limits);
}

// Cuts the leaves of a plan again, with extents that needn't divide. A chunk can end anywhere.
Plan recut(const Plan& plan, const Cut& cut, Random& random, std::uint64_t& ragged) {
  const Format& target = format_of("orbax");
  PlanParts parts(plan);
  parts.cut = {};
  for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    const Leaf& info = plan.model().leaves[leaf];
    Grid grid = plan.grids()[leaf];
    for (std::size_t d = 0; d < info.shape.rank(); ++d) {
      grid.inner[d] = pick(random, 1, std::max<std::uint64_t>(info.shape[d], 1));
      grid.chunk[d] = grid.inner[d] * pick(random, 1, 3);
      ragged += info.shape[d] % grid.chunk[d] != 0;
    }
    if (random() % 2 == 0) grid.inner = grid.chunk;
    parts.cut.grids.push_back(grid);
    parts.cut.units.push_back(make_unit_form(info, grid, plan.model().leading_to(leaf),
                                             target.form(info, grid, cut.options.encoding),
                                             plan.limits()));
  }
  return parts.build();
}

struct Filled {
  std::vector<std::byte> space;  // the plan's address space
  std::vector<Digest128> sums;
};

Filled fill_all(const Plan& plan) {
  Filled out;
  out.space.assign(plan.end_address(), std::byte{kPoison});
  out.sums.resize(plan.model().digest_slots());
  const OpenSources sources = open_sources(plan.catalog());
  const UnitFiller filler(plan, sources);
  for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at)) {
    filler.hint(at);
    std::vector<std::byte> scratch(filler.scratch_bytes(at), std::byte{kPoison});
    std::vector<SlotDigest> digests;
    const std::uint64_t region = plan.units()[plan.group_of(at).leaf].region_bytes();
    filler.fill(at, std::span(out.space).subspan(plan.address_of(at), region), scratch, digests);
    for (const SlotDigest& digest : digests) out.sums[digest.slot] += digest.sum;
  }
  return out;
}

// Returns the bytes of one element, found only by the plan's placement and the grid.
std::string element_at(const Plan& plan, const std::vector<std::byte>& space, std::uint32_t leaf,
                       std::uint64_t element) {
  const Shape& shape = plan.model().leaves[leaf].shape;
  const Grid& grid = plan.grids()[leaf];
  const PieceForm& form = plan.units()[leaf].form;
  const std::size_t size = size_bits(plan.model().leaves[leaf].dtype) / 8;
  Shape chunk = shape;
  std::uint64_t cell = 0;
  std::uint64_t within = 0;
  const Shape strides = shape.strides();
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const std::uint64_t x = element / strides[d] % shape[d];
    chunk[d] = x / grid.chunk[d];
    const std::uint64_t in_chunk = x % grid.chunk[d];
    cell = cell * (grid.chunk[d] / grid.inner[d]) + in_chunk / grid.inner[d];
    within = within * grid.inner[d] + in_chunk % grid.inner[d];
  }
  const Place place = plan.place(leaf, chunk);
  EXPECT_LE(plan.file_begin()[place.file] + place.offset_bytes + place.length_bytes,
            plan.file_begin()[place.file + 1]);
  const std::uint64_t at = plan.file_begin()[place.file] + place.offset_bytes +
                           cell * (form.cell_bytes + form.cell_suffix_bytes) + within * size;
  std::string out(size, '\0');
  std::memcpy(out.data(), space.data() + at, size);
  return out;
}

// Returns whether all bytes of cells outside of their leaf are zero, so that the output doesn't
// depend on earlier memory.
bool edges_are_zero(const Plan& plan, const std::vector<std::byte>& space) {
  for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at)) {
    const std::size_t size = size_bits(plan.model().leaves[plan.group_of(at).leaf].dtype) / 8;
    for (const Cell& cell : unit_cells(plan, at)) {
      const std::byte* bytes = space.data() + plan.address_of(at) + cell.offset_bytes;
      bool zero = true;
      for_each_chunk(cell.full.extent, [&](const Shape& place) {
        bool inside = true;
        for (std::size_t d = 0; d < place.rank(); ++d)
          inside = inside && place[d] < cell.clipped.extent[d];
        for (std::size_t k = 0; k < size; ++k, ++bytes)
          zero = zero && (inside || *bytes == std::byte{0});
        return zero;
      });
      if (!zero) return false;
    }
  }
  return true;
}

TEST(UnitFiller, FillsWhatASlowReferenceSaysHoweverItIsCut) {
  std::uint64_t with_inner = 0;
  std::uint64_t chunks = 0;
  std::uint64_t ragged = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    RandomModel made(kSeed + static_cast<std::uint64_t>(round));
    const TempDir dir;
    made.builder.write(dir / "model.safetensors");
    const Catalog catalog = open_catalog(dir / "model.safetensors");
    const auto expected = made.expected();
    std::optional<std::vector<Digest128>> sums;
    for (int cut = 0; cut < 4; ++cut) {
      SCOPED_TRACE("cut " + std::to_string(cut));
      const Cut sizes = random_cut(made.random);
      const Plan regular = cut_plan(catalog, made.model, sizes);
      const Plan plan = cut % 2 == 1 ? recut(regular, sizes, made.random, ragged) : regular;
      const Filled filled = fill_all(plan);
      for (std::uint32_t leaf = 0; leaf < expected.size(); ++leaf) {
        with_inner += plan.grids()[leaf].has_inner();
        for (const auto& [element, bytes] : expected[leaf])
          ASSERT_EQ(element_at(plan, filled.space, leaf, element), bytes)
              << "leaf " << leaf << " element " << element;
      }
      EXPECT_TRUE(edges_are_zero(plan, filled.space));
      chunks += plan.totals().chunks;
      if (!sums) sums = filled.sums;
      EXPECT_EQ(*sums, filled.sums) << "digests depend on how the leaves are cut";
    }
  }
  EXPECT_GT(with_inner, 10U);
  EXPECT_GT(chunks, 2000U);
  EXPECT_GT(ragged, 200U);
}

// A row is hashed with its repeats, so it is gathered in more memory than it has in its source.
TEST(UnitFiller, ARowThatIsRepeatedHasRoomForAllOfIt) {
  for (const Shape& source : {Shape{8}, Shape{2, 8}}) {
    const TempDir dir;
    const std::uint64_t count = source.numel();
    std::string bytes;
    for (std::uint64_t i = 0; i < count; ++i) bytes += static_cast<char>('a' + i);
    SafetensorsBuilder().tensor("t", DType::u8, source, bytes).write(dir / "model.safetensors");
    CompiledModel model;
    model.family = "test";
    model.scheme = "test";
    model.rules = {"test#/0"};
    Leaf leaf;
    leaf.name = "leaf";
    leaf.shape = source;
    leaf.shape.insert(0, 100);
    leaf.dtype = DType::u8;
    leaf.axes.assign(leaf.shape.rank(), "");
    model.leaves.push_back(leaf);
    Transfer transfer;
    transfer.sources = {0};
    transfer.source_shape = source;
    transfer.source_dtype = DType::u8;
    transfer.map = {0, 0, {{100, 0, static_cast<std::int64_t>(count)}, {count, 1, 1}}};
    model.transfers.push_back(transfer);
    const Plan plan = cut_plan(open_catalog(dir / "model.safetensors"), model, Cut{});
    const Filled filled = fill_all(plan);
    for (std::uint64_t i = 0; i < leaf.shape.numel(); ++i)
      ASSERT_EQ(element_at(plan, filled.space, 0, i), bytes.substr(i % count, 1)) << i;
  }
}

// Memory is reused. Bytes beyond the edge of a leaf, and between chunks, must not keep old values,
// or runs would write different bytes.
TEST(UnitFiller, WritesEveryByteOfARegionWhateverItHeld) {
  const TempDir dir;
  SafetensorsBuilder().tensor("t", DType::u8, {10, 7}).write(dir / "model.safetensors");
  const Catalog catalog = open_catalog(dir / "model.safetensors");
  MappingOptions options;
  options.scheme = "hf";
  options.stacked = false;
  Cut cut;
  cut.limits.alignment_bytes = 32;
  cut.limits.run_bytes = 1;
  cut.options.encoding.checksum = false;
  for (const Shape& chunk : {Shape{10, 7}, Shape{4, 7}, Shape{3, 2}, Shape{5, 4}}) {
    const Plan regular = cut_plan(catalog, compile_model(catalog, options), cut);
    PlanParts parts(regular);
    const Grid grid{chunk, chunk, chunk};
    const Leaf& leaf = parts.model.leaves[0];
    parts.cut = {};
    parts.cut.grids.push_back(grid);
    parts.cut.units.push_back(
        make_unit_form(leaf, grid, regular.model().leading_to(0),
                       format_of("orbax").form(leaf, grid, cut.options.encoding), parts.limits));
    const Plan plan = parts.build();
    const OpenSources sources = open_sources(plan.catalog());
    const UnitFiller filler(plan, sources);
    std::vector<std::vector<std::byte>> spaces;
    for (const int held : {0xa5, 0x5a}) {
      std::vector<std::byte>& space = spaces.emplace_back(plan.end_address());
      std::ranges::fill(space, static_cast<std::byte>(held));
      for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at)) {
        std::vector<std::byte> scratch(filler.scratch_bytes(at));
        std::vector<SlotDigest> digests;
        filler.fill(at,
                    std::span(space).subspan(plan.address_of(at), plan.units()[0].region_bytes()),
                    scratch, digests);
      }
    }
    EXPECT_TRUE(spaces[0] == spaces[1]) << to_string(chunk);
  }
}

TEST(UnitFiller, ADigestDependsOnEveryByte) {
  RandomModel made(kSeed);
  const TempDir dir;
  Random random(kSeed);
  made.builder.write(dir / "model.safetensors");
  const Cut cut = random_cut(random);
  const Catalog before = open_catalog(dir / "model.safetensors");
  const std::vector<Digest128> sums = fill_all(cut_plan(before, made.model, cut)).sums;
  std::string file = read_file(dir / "model.safetensors");
  const Transfer& transfer = made.model.transfers[0];
  const TensorInfo& info = before.tensors[transfer.sources[0]];
  const std::uint64_t element = transfer.map.src_base;
  const std::uint64_t at = info.begin_bytes + element * size_bits(info.dtype) / 8;
  file[at] = static_cast<char>(file[at] ^ 1);
  write_text(dir / "model.safetensors", file);
  const Catalog after = open_catalog(dir / "model.safetensors");
  const std::vector<Digest128> changed = fill_all(cut_plan(after, made.model, cut)).sums;
  EXPECT_NE(sums[0], changed[0]);
  for (std::size_t slot = 1; slot < sums.size(); ++slot) EXPECT_EQ(sums[slot], changed[slot]);
}

// Exchanged rows keep their bytes, so the sum must include each row's place.
TEST(UnitFiller, ADigestDependsOnThePlaceOfEveryRow) {
  const TempDir dir;
  const std::string rows[] = {"abcdefgh", "ijklmnop"};
  std::vector<Digest128> sums;
  for (const bool swapped : {false, true}) {
    SafetensorsBuilder builder;
    builder.tensor("t000", DType::u8, {2, 8}, rows[swapped] + rows[!swapped]);
    builder.write(dir / "model.safetensors");
    const Catalog catalog = open_catalog(dir / "model.safetensors");
    MappingOptions options;
    options.scheme = "hf";
    options.stacked = false;
    Random random(kSeed);
    const Plan plan = cut_plan(catalog, compile_model(catalog, options), random_cut(random));
    sums.push_back(fill_all(plan).sums.at(0));
  }
  EXPECT_NE(sums[0], sums[1]);
}

}  // namespace
}  // namespace hfshard
