// The layout of a plan. Units are consecutive, without holes, and whole in their file. Every chunk
// is in its unit, bytes cut the files, and every mesh can read the grids.

#include "plan/plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "catalog/tree_structure.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Leaves that equal their tensors, stacked or not, over made-up files.
struct Made {
  Catalog catalog;
  CompiledModel model;
  PlanOptions options;
  FileLayout files;
  Limits limits;
  std::uint32_t suffix_bytes = 4;  ///< of each chunk

  Made() {
    model.family = model.scheme = "test";
    model.rules = {"test#/0"};
    options.rules_text = R"([["rows", ["fsdp"]], ["cols", ["tensor"]], ["both", ["fsdp"]]])";
    options.meshes = {"fsdp=1"};
    limits.floor_bytes = 64;
    limits.alignment_bytes = 16;
    limits.run_bytes = 16;
    limits.file_min_bytes = limits.file_max_bytes = 4096;
  }

  std::uint32_t file(const std::string& name) {
    CatalogFile out;
    out.path = out.name = name;
    catalog.files.push_back(out);
    return static_cast<std::uint32_t>(catalog.files.size() - 1);
  }

  std::uint32_t tensor(std::uint32_t in_file, const Shape& shape, DType dtype = DType::bf16) {
    TensorInfo info;
    info.name = "t" + std::to_string(catalog.tensors.size());
    info.dtype = dtype;
    info.shape = shape;
    info.file = in_file;
    info.size_bytes = packed_bytes(dtype, shape.numel());
    info.begin_bytes = catalog.files[in_file].size_bytes;
    catalog.files[in_file].size_bytes += info.size_bytes;
    catalog.tensors.push_back(info);
    return static_cast<std::uint32_t>(catalog.tensors.size() - 1);
  }

  // Adds a leaf [layers, rows, cols] with one tensor per layer, or [rows, cols] of one tensor.
  void leaf(const std::string& path, const std::vector<std::uint32_t>& sources, const Shape& shape,
            std::vector<std::string> axes = {"rows", "cols"}) {
    const bool stacked = sources.size() > 1;
    Leaf out;
    out.name = path;
    out.shape = shape;
    out.axes = std::move(axes);
    out.stacked.assign(shape.rank(), false);
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.sources = sources;
    transfer.source_shape = shape;
    if (stacked) {
      out.shape.insert(0, sources.size());
      out.axes.insert(out.axes.begin(), "");
      out.stacked.insert(out.stacked.begin(), true);
      transfer.loops = {{sources.size(), static_cast<std::int64_t>(shape.numel())}};
    }
    const Shape strides = shape.strides();
    for (std::size_t d = 0; d < shape.rank(); ++d) {
      const auto step = static_cast<std::int64_t>(strides[d]);
      transfer.map.digits.push_back({shape[d], step, step});
    }
    model.leaves.push_back(std::move(out));
    model.transfers.push_back(std::move(transfer));
  }

  Plan build() const {
    const auto form = [this](const Leaf& leaf, const Grid& grid) {
      PieceForm out;
      out.cell_bytes = packed_bytes(leaf.dtype, grid.chunk.numel());
      out.cell_suffix_bytes = suffix_bytes;
      return out;
    };
    return build_plan(make_model(catalog, model), options, form, files, limits);
  }
};

// Makes three layers over two files, and small leaves between them.
Made three_layers() {
  Made made;
  const std::uint32_t first = made.file("a");
  const std::uint32_t second = made.file("b");
  const std::uint32_t head = made.tensor(second, {6});
  std::vector<std::uint32_t> layers;
  for (const std::uint32_t in : {second, first, second})
    layers.push_back(made.tensor(in, {24, 40}));
  const std::uint32_t norm = made.tensor(first, {40});
  made.leaf("head", {head}, {6}, {""});
  made.leaf("layers", layers, {24, 40});
  made.leaf("norm", {norm}, {40}, {"cols"});
  made.options.chunk_bytes = 256;
  return made;
}

// With `--mesh A --mesh B` a shard of either is whole chunks, or is in one. The order doesn't
// matter.
TEST(Plan, SeveralMeshesAreAllServed) {
  Made made;
  const std::uint32_t in = made.file("a");
  made.leaf("x", {made.tensor(in, {48, 36})}, {48, 36});
  const auto shard_of = [&](std::vector<std::string> meshes) {
    made.options.meshes = std::move(meshes);
    return made.build().grids()[0].shard;
  };
  EXPECT_EQ(shard_of({"fsdp=4"}), (Shape{12, 36}));
  EXPECT_EQ(shard_of({"tensor=3"}), (Shape{48, 12}));
  EXPECT_EQ(shard_of({"fsdp=4", "tensor=3"}), (Shape{12, 12}));
  EXPECT_EQ(shard_of({"tensor=3", "fsdp=4"}), (Shape{12, 12}));
  EXPECT_EQ(shard_of({"fsdp=4", "fsdp=6"}), (Shape{4, 36}));
  EXPECT_EQ(shard_of({"fsdp=6", "fsdp=4"}), (Shape{4, 36}));
  EXPECT_EQ(shard_of({"fsdp=8", "fsdp=3,tensor=2", "tensor=9"}), (Shape{2, 2}));
  EXPECT_EQ(made.build().meshes().size(), 3U);
}

TEST(Plan, EveryOneOfSeveralMeshesMustDivide) {
  Made made;
  const std::uint32_t in = made.file("a");
  made.leaf("x", {made.tensor(in, {48, 36})}, {48, 36});
  for (const std::vector<std::string>& meshes :
       {std::vector<std::string>{"fsdp=5", "fsdp=4"}, {"fsdp=4", "fsdp=5"}}) {
    made.options.meshes = meshes;
    EXPECT_EQ(catch_error([&] { made.build(); }).code(), ErrorCode::bad_input);
  }
}

// Shards and chunks have no dimension of 0, so that readers can divide by them.
TEST(Plan, AnArrayWithoutElementsIsCutIntoStepsOfOne) {
  for (const char* mesh : {"fsdp=1", "fsdp=4"}) {
    Made made;
    made.options.meshes = {mesh};
    const std::uint32_t in = made.file("a");
    made.leaf("full", {made.tensor(in, {8, 6})}, {8, 6});
    const LayoutTotals alone = made.build().totals();
    made.leaf("none", {made.tensor(in, {0, 6})}, {0, 6});
    const Plan plan = made.build();
    EXPECT_EQ(plan.grids()[1].shard, (Shape{1, 6}));
    EXPECT_EQ(plan.grids()[1].chunk, (Shape{1, 6}));
    EXPECT_EQ(plan.grids()[1].inner, (Shape{1, 6}));
    EXPECT_EQ(plan.totals().chunks, alone.chunks);
    EXPECT_EQ(plan.totals().units, alone.units);
    EXPECT_EQ(plan.totals().output_bytes, alone.output_bytes);
  }
}

TEST(Plan, ChunksOfAFormatWithoutInnerOnesAreInOneShard) {
  Made made;
  made.leaf("x", {made.tensor(made.file("a"), {48, 36})}, {48, 36});
  made.options.meshes = {"fsdp=8"};
  made.limits.outer_shards = 4;
  const auto grid = [&] { return made.build().grids()[0]; };
  EXPECT_EQ(grid().chunk, (Shape{12, 36}));
  EXPECT_EQ(grid().inner, (Shape{6, 36}));
  made.files.inner_chunks = false;
  EXPECT_EQ(grid().chunk, (Shape{6, 36}));
  EXPECT_EQ(grid().inner, (Shape{6, 36}));
}

// A tree names axes that no rule has, if it was saved on another mesh.
TEST(Plan, AMeshMayHaveTheAxesOfTheSavedTree) {
  Made made;
  made.leaf("x", {made.tensor(made.file("a"), {24, 40})}, {24, 40});
  made.options.meshes = {"fsdp=2,replica=3"};
  EXPECT_EQ(catch_error([&] { made.build(); }).code(), ErrorCode::usage);
  TreeStructure structure;
  structure.mesh_axes = {"replica"};
  made.model.structure = std::make_shared<const TreeStructure>(structure);
  EXPECT_NO_THROW(made.build());
}

// Compares all functions that place a chunk with one walk over all units.
TEST(Plan, EveryChunkHasAPlaceOfItsOwnInItsUnit) {
  for (const bool packed : {false, true}) {
    Made made = three_layers();
    made.options.encoding.zstd_level = packed ? 1 : 0;
    const Plan plan = made.build();
    ASSERT_GT(plan.file_count(), 1U);
    std::set<std::uint64_t> addresses;
    std::uint64_t chunks = 0;
    for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
      const UnitForm& unit = plan.units()[leaf];
      for_each_chunk(unit.counts, [&](const Shape& chunk) {
        ++chunks;
        const Place place = plan.place(leaf, chunk);
        const std::uint64_t address = plan.file_begin()[place.file] + place.offset_bytes;
        EXPECT_TRUE(addresses.insert(address).second);
        EXPECT_EQ(address % plan.limits().alignment_bytes, 0U);
        EXPECT_LE(address + place.length_bytes, plan.file_begin()[place.file + 1]);
        EXPECT_EQ(place.length_bytes, unit.form.stored_bytes());
        const ChunkIndex index = chunk_index(unit, chunk);
        const std::uint64_t before = index.position * unit.stride_bytes;
        const UnitRef ref = plan.unit_at(plan.address_of(leaf, chunk) - before);
        EXPECT_EQ(ref.unit, index.unit);
        EXPECT_EQ(plan.group_of(ref).leaf, leaf);
        EXPECT_EQ(plan.group_of(ref).loop_index, index.loop_index);
        EXPECT_EQ(plan.address_of(ref) + before, address);
        Shape origin = unit_origin(unit, index.loop_index, index.unit);
        for (std::size_t d = 0; d < origin.rank(); ++d)
          EXPECT_EQ(origin[d], chunk[d] / unit.span[d] * unit.span[d]);
        if (packed) {
          EXPECT_EQ(plan.chunks_before(leaf, chunk), plan.chunks_before(ref) + index.position);
        }
        return true;
      });
    }
    EXPECT_EQ(chunks, plan.totals().chunks);
  }
}

TEST(Plan, UnitsFollowEachOtherAndAreFoundByTheirAddress) {
  Made made = three_layers();
  made.options.encoding.zstd_level = 1;
  const Plan plan = made.build();
  std::uint64_t address = 0;
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  UnitRef at;
  for (; at.group < plan.groups().size(); at = plan.next(at)) {
    const UnitForm& unit = plan.units()[plan.group_of(at).leaf];
    EXPECT_EQ(plan.address_of(at), address);
    EXPECT_EQ(plan.unit_at(address), at);
    EXPECT_EQ(plan.chunks_before(at), chunks);
    const std::uint32_t file = plan.file_at(address);
    EXPECT_GE(address, plan.file_begin()[file]);
    EXPECT_LE(address + unit.region_bytes(), plan.file_begin()[file + 1]);
    EXPECT_EQ(plan.file_at(address + unit.region_bytes() - 1), file);
    address += unit.region_bytes();
    chunks += unit.chunks_per_unit;
    ++units;
  }
  EXPECT_EQ(address, plan.end_address());
  EXPECT_EQ(plan.address_of(at), address);
  EXPECT_EQ(plan.unit_at(address), at);
  EXPECT_EQ(plan.chunks_before(at), chunks);
  EXPECT_EQ(plan.totals().chunks, chunks);
  EXPECT_EQ(plan.totals().units, units);
  EXPECT_EQ(plan.totals().output_bytes, address);
}

// A run reads its sources from front to back. The order of leaf names isn't that of files.
TEST(Plan, UnitsFollowTheOrderOfTheirSources) {
  const Plan plan = three_layers().build();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> read;
  for (const Group& group : plan.groups()) {
    const Transfer& transfer = *plan.model().leading_to(group.leaf)[0];
    const UnitForm& unit = plan.units()[group.leaf];
    const Shape origin = unit_origin(unit, group.loop_index, 0);
    const std::uint64_t layer =
        transfer.loops.empty() ? 0 : origin[0] * plan.grids()[group.leaf].chunk[0];
    const TensorInfo& info = plan.catalog().tensors[transfer.sources[layer]];
    read.emplace_back(info.file, info.begin_bytes);
  }
  ASSERT_EQ(read.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(read));
}

// A chunk has several layers, and the first rule lacks the last ones. They follow its last layer.
TEST(Plan, UnitsOfSeveralLayersFollowTheirFirstSource) {
  Made made;
  std::vector<std::uint32_t> files;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) files.push_back(made.file(name));
  std::vector<std::uint32_t> layers;
  for (const std::uint32_t file : {5U, 0U, 2U, 3U, 4U, 1U})
    layers.push_back(made.tensor(files[file], {4, 6}));
  made.leaf("layers", layers, {4, 6});
  made.limits.floor_bytes = 96;  // two layers of 48 bytes
  const auto order_of = [](const Plan& plan) {
    std::vector<std::uint32_t> out;
    for (const Group& group : plan.groups()) out.push_back(group.loop_index);
    return out;
  };
  const Plan plan = made.build();
  ASSERT_EQ(plan.grids()[0].chunk, (Shape{2, 4, 6}));
  EXPECT_EQ(order_of(plan), (std::vector<std::uint32_t>{1, 2, 0}));  // files c, e, f

  Leaf& leaf = made.model.leaves[0];
  leaf.shape[0] = 8;  // layers 6 and 7 come from elsewhere
  EXPECT_EQ(order_of(made.build()),
            (std::vector<std::uint32_t>{3, 1, 2, 0}));  // file b of layer 5, c, e, f
}

// A file ends where the next unit would make it too large, at any place.
TEST(Plan, FilesAreAsLargeAsTheyMayBeAndHoldWholeUnits) {
  Made made = three_layers();
  for (const std::uint64_t most : {16U, 700U, 1024U, 4096U, 5000U, 1U << 20}) {
    SCOPED_TRACE(most);
    made.limits.file_min_bytes = made.limits.file_max_bytes = most;
    const Plan plan = made.build();
    std::uint32_t file = 0;
    std::uint64_t units_in_file = 0;
    for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at)) {
      const std::uint64_t address = plan.address_of(at);
      const std::uint64_t end = plan.address_of(plan.next(at));
      if (plan.file_at(address) != file) {
        EXPECT_GT(units_in_file, 0U);
        EXPECT_EQ(plan.file_at(address), ++file);
        EXPECT_EQ(plan.file_begin()[file], address);
        EXPECT_GT(end - plan.file_begin()[file - 1], most) << "this unit had room before";
        units_in_file = 0;
      }
      ++units_in_file;
      EXPECT_TRUE(units_in_file == 1 || end - plan.file_begin()[file] <= most);
    }
    EXPECT_EQ(plan.file_count(), file + 1);
    EXPECT_EQ(plan.file_begin().back(), plan.end_address());
  }
}

TEST(Plan, TheSizeOfAFileIsAShareOfAllWithinItsBounds) {
  Made made = three_layers();
  made.limits.file_share = 4;
  const std::uint64_t all = made.build().end_address();
  const auto largest = [&](std::uint64_t least, std::uint64_t most) {
    made.limits.file_min_bytes = least;
    made.limits.file_max_bytes = most;
    const Plan plan = made.build();
    std::uint64_t out = 0;
    for (std::uint32_t file = 0; file < plan.file_count(); ++file)
      out = std::max(out, plan.file_begin()[file + 1] - plan.file_begin()[file]);
    return out;
  };
  EXPECT_LE(largest(16, all), all / 4);
  EXPECT_GT(largest(16, all), all / 8);
  EXPECT_LE(largest(16, all / 16), all / 16);
  EXPECT_GT(largest(all / 2, all), all / 4);
}

// The format's requirements for its files apply at every place, for any sizes.
TEST(Plan, LeadingBytesAndAlignmentAreTheFormats) {
  Made made = three_layers();
  const Plan plain = made.build();
  made.files.item = "in";
  made.files.data_prefix = "p";
  made.files.data_suffix = ".x";
  made.files.alignment_bytes = 40;
  made.files.leading = std::string(41, 'l');
  made.limits.file_min_bytes = made.limits.file_max_bytes = 2048;
  const Plan plan = made.build();
  ASSERT_GT(plan.file_count(), 2U);
  EXPECT_EQ(plan.file_path(1), "p00001.x");
  EXPECT_EQ(plan.item_directory("a"), "a/in");
  EXPECT_EQ(plan.totals().output_bytes, plan.end_address() + plan.file_count() * 80);
  EXPECT_EQ(plain.totals().output_bytes, plain.end_address());
  std::vector<std::uint64_t> lowest(plan.file_count(), UINT64_MAX);
  for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    for_each_chunk(chunk_counts(plan.model().leaves[leaf].shape, plan.grids()[leaf].chunk),
                   std::function<bool(const Shape&)>([&](const Shape& chunk) {
                     const Place place = plan.place(leaf, chunk);
                     EXPECT_EQ(place.offset_bytes % 40, 0U);
                     lowest[place.file] = std::min(lowest[place.file], place.offset_bytes);
                     return true;
                   }));
  }
  EXPECT_EQ(lowest, std::vector<std::uint64_t>(plan.file_count(), 80));
}

TEST(Plan, TotalsCountEachThingOnce) {
  Made made = three_layers();
  const Plan plan = made.build();
  EXPECT_EQ(plan.totals().tensors, 5U);
  EXPECT_EQ(plan.totals().source_bytes, 2U * (6 + 3 * 24 * 40 + 40));
  EXPECT_EQ(plan.totals().shared_tensors, 0U);
  EXPECT_EQ(plan.model().digest_slots(), 5U);
  EXPECT_EQ(plan.totals().linked_leaves, 0U);
  std::uint64_t need = 0;
  for (std::uint32_t leaf = 0; leaf < 3; ++leaf)
    need = std::max(need, plan.units()[leaf].region_bytes() + plan.units()[leaf].scratch_bytes);
  EXPECT_EQ(plan.totals().largest_need_bytes, need);

  made.leaf("twice", {4}, {40}, {"cols"});  // a tensor that feeds three leaves is one shared tensor
  made.leaf("thrice", {4}, {40}, {"cols"});
  made.model.transfers.back().copy = true;
  const Plan shared = made.build();
  EXPECT_EQ(shared.totals().shared_tensors, 1U);
  EXPECT_EQ(shared.totals().source_bytes, 2U * (6 + 3 * 24 * 40 + 3 * 40));
}

// Codes count as they are stored, with their scales.
TEST(Plan, TotalsCountCodesAndScalesAsTheyAreStored) {
  Made made;
  const std::uint32_t in = made.file("a");
  const std::uint32_t codes = made.tensor(in, {4, 16}, DType::u8);
  const std::uint32_t scales = made.tensor(in, {4, 2}, DType::f32);
  made.leaf("coded", {codes}, {4, 32});
  Transfer& transfer = made.model.transfers[0];
  transfer.source_dtype = DType::f4;
  transfer.decode =
      std::make_shared<const Decode>(Decode{{Code::f4_e2m1, DType::f32, 4, 32, 1, 16}, {scales}});
  EXPECT_EQ(made.build().totals().source_bytes, 4U * 16 + 4 * 2 * 4);
}

// A larger size can only be a mistake. All arrays count.
TEST(Plan, APebibyteIsTheMost) {
  Made made;
  made.suffix_bytes = 0;
  made.limits = Limits();
  made.options.chunk_bytes = std::uint64_t{256} << 20;
  const std::uint32_t in = made.file("a");
  for (const char* name : {"x", "y"}) {
    const Shape half{std::uint64_t{1} << 24, std::uint64_t{1} << 24};
    made.leaf(name, {made.tensor(in, half)}, half);
  }
  EXPECT_EQ(made.build().end_address(), std::uint64_t{1} << 50);
  made.leaf("z", {made.tensor(in, {1})}, {1}, {""});
  const Error error = catch_error([&] { made.build(); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), "z");
  EXPECT_EQ(error.sentence(), "the output is larger than 1 PiB; this tensor is bf16 1");
  EXPECT_EQ(error.hint_text(), "check the sizes in config.json and --vocab");
}

// Each chunk begins at a multiple of the alignment.
TEST(Plan, APebibyteIsTheMostAlsoWithTheSpaceBetweenChunks) {
  Made made;
  made.limits.alignment_bytes = std::uint64_t{1} << 49;
  const std::uint32_t in = made.file("a");
  for (const char* name : {"x", "y"}) made.leaf(name, {made.tensor(in, {4, 6})}, {4, 6});
  EXPECT_EQ(made.build().end_address(), std::uint64_t{1} << 50);
  made.leaf("z", {made.tensor(in, {4, 6})}, {4, 6});
  const Error error = catch_error([&] { made.build(); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(),
            "3 chunks, each at a multiple of 512 TiB, need 1.5 PiB of output; a plan holds at most "
            "1 PiB");
  EXPECT_EQ(error.hint_text(), "pass a larger --chunk-bytes");
}

TEST(Plan, WhatIsLinkedIsCountedApart) {
  Made made = three_layers();
  made.options.link = true;
  made.files.data_prefix = "mine/";
  made.files.linked_prefix = "theirs/";
  made.limits.link_piece_bytes = 1;
  made.model.transfers[0].value.mul = 2.0F;  // the head is computed
  const Plan plan = made.build();
  EXPECT_EQ(plan.totals().linked_leaves, 2U);
  EXPECT_EQ(plan.totals().linked_bytes, 2U * (3 * 24 * 40 + 40));
  EXPECT_EQ(plan.totals().source_bytes, 2U * 6);
  ASSERT_EQ(plan.not_linked().size(), 1U);
  EXPECT_EQ(plan.not_linked()[0].leaf, 0U);
  EXPECT_EQ(plan.linked_files(), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(plan.file_count(), 1U);
  EXPECT_EQ(plan.file_path(0), "mine/00000");
  EXPECT_EQ(plan.file_path(1), "theirs/a");
  EXPECT_EQ(plan.file_path(2), "theirs/b");
  ASSERT_GT(plan.totals().linked_chunks, 4U);
  std::uint64_t chunks = 0;
  std::map<std::uint32_t, std::uint64_t> bytes;
  for_each_chunk(
      chunk_counts(plan.model().leaves[1].shape, plan.grids()[1].chunk), [&](const Shape& chunk) {
        const Place place = plan.place(1, chunk);
        bytes[place.file] += place.length_bytes;
        const TensorInfo& info =
            plan.catalog().tensors[plan.model().transfers[1].sources[chunk[0]]];
        EXPECT_EQ(place.file, 1 + info.file);
        const Shape& extent = plan.grids()[1].chunk;
        EXPECT_EQ(extent[2], 40U);
        EXPECT_EQ(place.offset_bytes, info.begin_bytes + 2 * chunk[1] * extent[1] * extent[2]);
        EXPECT_LE(place.offset_bytes + place.length_bytes, info.range().end);
        return ++chunks > 0;
      });
  EXPECT_EQ(bytes,
            (std::map<std::uint32_t, std::uint64_t>{{1, 24U * 40 * 2}, {2, 2U * 24 * 40 * 2}}));
}

}  // namespace
}  // namespace hfshard
