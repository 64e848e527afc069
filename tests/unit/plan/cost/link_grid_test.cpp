#include "plan/cost/link_grid.h"

#include <gtest/gtest.h>

#include "support/sizes.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

Leaf linked_leaf(Shape shape, DType dtype = DType::bf16) {
  Leaf leaf;
  leaf.name = "params.params.x";
  leaf.shape = shape;
  leaf.dtype = dtype;
  return leaf;
}

// `layers` matrices [out, in], stacked as [in, layers, out].
Transfer stacked_kernel(std::uint64_t in, std::uint64_t layers, std::uint64_t out) {
  Transfer transfer;
  transfer.source_shape = {out, in};
  transfer.loops = {{layers, static_cast<std::int64_t>(out)}};
  transfer.sources.resize(layers);
  const auto row = static_cast<std::int64_t>(layers * out);
  transfer.map.digits.push_back({in, 1, row});
  transfer.map.digits.push_back({out, static_cast<std::int64_t>(in), 1});
  return transfer;
}

LinkChoice choose(const Leaf& leaf, const std::vector<Transfer>& transfers, const Shape& shard,
                  const Limits& limits = {}, std::uint64_t chunk_bytes = 64 * kMiB) {
  std::vector<const Transfer*> all;
  for (const Transfer& transfer : transfers) all.push_back(&transfer);
  return link_grid(leaf, all, false, shard, chunk_bytes, limits);
}

TEST(Link, AStackedKernelIsATransposedMatrixALayer) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  const Transfer transfer = stacked_kernel(1000, 3, 1400);
  const LinkChoice choice = choose(leaf, {transfer}, {500, 3, 1400});
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{1000, 1, 1400}));
  EXPECT_EQ(choice.grid->order, (std::vector<std::uint8_t>{1, 2, 0}));
  EXPECT_TRUE(choice.grid->linked);
  const std::vector<const Transfer*> all{&transfer};
  const auto chunk = linked_chunk(leaf, *choice.grid, all, {0, 2, 0});
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->source, 2U);
  EXPECT_EQ(chunk->begin, 0U);
}

TEST(Link, TheSlowAxisOfTheSourceFollowsTheMesh) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  const Transfer transfer = stacked_kernel(1000, 3, 1400);
  const LinkChoice choice = choose(leaf, {transfer}, {1000, 3, 350});
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{1000, 1, 350}));
  const std::vector<const Transfer*> all{&transfer};
  EXPECT_EQ(linked_chunk(leaf, *choice.grid, all, {0, 1, 3})->begin, 3U * 350U * 1000U);
}

TEST(Link, ALargeMatrixIsCutIntoBandsOfRows) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  const LinkChoice choice =
      choose(leaf, {stacked_kernel(1000, 3, 1400)}, {1000, 3, 1400}, {}, 1 * kMiB);
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{1000, 1, 350}));  // 700 rows would be 1.4 MB
}

// A chunk has at most the requested size, not twice that.
TEST(Link, AMatrixALittleLargerThanAChunkIsCutToo) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  const LinkChoice choice =
      choose(leaf, {stacked_kernel(1000, 3, 1400)}, {1000, 3, 1400}, {}, 2 * kMiB);
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{1000, 1, 700}));
}

TEST(Link, ASmallLeafFollowsNoMesh) {
  const Leaf leaf = linked_leaf({100, 3, 140});
  Limits limits;
  limits.run_bytes = 1;
  limits.link_piece_bytes = 1;
  LinkChoice choice = choose(leaf, {stacked_kernel(100, 3, 140)}, {100, 3, 35}, limits);
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{100, 1, 140}));
  limits.floor_bytes = 1000;
  choice = choose(leaf, {stacked_kernel(100, 3, 140)}, {100, 3, 35}, limits);
  EXPECT_EQ(choice.grid->chunk, (Shape{100, 1, 35}));
}

// The next axis is cut only if each piece reaches the floor, and never after one that was cut.
TEST(Link, TheSecondAxisIsCutWhereItsPiecesReachTheFloor) {
  const Leaf leaf = linked_leaf({4, 512, 1024});
  Transfer transfer;
  transfer.source_shape = leaf.shape;
  transfer.sources = {0};
  transfer.map.digits = {{4, 512 * 1024, 512 * 1024}, {512, 1024, 1024}, {1024, 1, 1}};
  Limits limits;
  EXPECT_EQ(choose(leaf, {transfer}, {4, 128, 1024}, limits).grid->chunk, leaf.shape);
  limits.floor_bytes = 256 << 10;
  EXPECT_EQ(choose(leaf, {transfer}, {4, 128, 1024}, limits).grid->chunk, (Shape{1, 128, 1024}));
  EXPECT_EQ(choose(leaf, {transfer}, {2, 128, 1024}, limits).grid->chunk, (Shape{2, 512, 1024}));
  EXPECT_EQ(choose(leaf, {transfer}, {1, 128, 1024}, limits).grid->chunk, (Shape{1, 128, 1024}));
}

TEST(Link, PiecesThatTheMeshWouldMakeTooShortStayWhole) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  // 1400 / 100 rows of 2000 bytes are 28 KB, which isn't worth a request.
  const LinkChoice choice = choose(leaf, {stacked_kernel(1000, 3, 1400)}, {1000, 3, 14});
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{1000, 1, 1400}));
}

TEST(Link, AnUnmovedMatrixHasNoOrder) {
  Transfer transfer;
  transfer.source_shape = {300, 70};
  transfer.sources = {0};
  transfer.map.digits.push_back({300 * 70, 1, 1});
  const LinkChoice choice = choose(linked_leaf({300, 70}), {transfer}, {300, 70});
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{300, 70}));
  EXPECT_TRUE(choice.grid->order.empty());
}

// A link can't turn the order of bytes around.
TEST(Link, ReversedElementsAreNotLinked) {
  Transfer transfer;
  transfer.source_shape = {300, 70};
  transfer.sources = {0};
  transfer.map.src_base = 69;
  transfer.map.digits = {{300, 70, 70}, {70, -1, 1}};
  const LinkChoice choice = choose(linked_leaf({300, 70}), {transfer}, {300, 70});
  EXPECT_FALSE(choice.grid);
  EXPECT_EQ(choice.why, "its elements have another order");
}

TEST(Link, InterleavedRowsAreLinkedOneByOneOrNot) {
  // [(2 4) D] -> [D, (4 2)]: neighboring columns come from rows that are apart.
  Transfer transfer;
  transfer.source_shape = {8, 10};
  transfer.sources = {0};
  transfer.map.digits.push_back({10, 1, 8});
  transfer.map.digits.push_back({4, 10, 2});
  transfer.map.digits.push_back({2, 40, 1});
  const Leaf leaf = linked_leaf({10, 8});
  EXPECT_EQ(choose(leaf, {transfer}, {10, 8}).why, "its elements are in pieces of 20 bytes");
  Limits limits;
  limits.link_piece_bytes = 20;
  const LinkChoice choice = choose(leaf, {transfer}, {10, 8}, limits);
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{10, 1}));
  const std::vector<const Transfer*> all{&transfer};
  EXPECT_EQ(linked_chunk(leaf, *choice.grid, all, {0, 3})->begin, 50U);  // t = 1, c = 1: row 5
}

TEST(Link, TwoSourcesSideBySideAreTwoChunks) {
  // [30, 7] above [20, 7]: boundaries at multiples of 10.
  std::vector<Transfer> transfers(2);
  transfers[0].source_shape = {30, 7};
  transfers[1].source_shape = {20, 7};
  transfers[0].map.digits.push_back({30 * 7, 1, 1});
  transfers[1].map.digits.push_back({20 * 7, 1, 1});
  transfers[1].map.dst_base = 30 * 7;
  for (Transfer& transfer : transfers) transfer.sources = {0};
  Limits limits;
  limits.link_piece_bytes = 1;
  const Leaf leaf = linked_leaf({50, 7});
  const LinkChoice choice = choose(leaf, transfers, {50, 7}, limits);
  ASSERT_TRUE(choice.grid) << choice.why;
  EXPECT_EQ(choice.grid->chunk, (Shape{10, 7}));
  const std::vector<const Transfer*> all{&transfers[0], &transfers[1]};
  const auto chunk = linked_chunk(leaf, *choice.grid, all, {4, 0});
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->transfer, 1U);
  EXPECT_EQ(chunk->begin, 70U);
}

TEST(Link, WhatIsComputedIsRefusedByName) {
  const Leaf leaf = linked_leaf({1000, 3, 1400});
  Transfer scaled = stacked_kernel(1000, 3, 1400);
  scaled.value.mul = 0.5F;
  EXPECT_EQ(choose(leaf, {scaled}, leaf.shape).why, "its values are computed");
  Transfer wide = stacked_kernel(1000, 3, 1400);
  wide.source_dtype = DType::f32;
  EXPECT_EQ(choose(leaf, {wide}, leaf.shape).why, "it is cast from f32 to bf16");
  Transfer coded = stacked_kernel(1000, 3, 1400);
  coded.decode = std::make_shared<const Decode>();
  EXPECT_EQ(choose(leaf, {coded}, leaf.shape).why, "its source is quantized");
  EXPECT_EQ(choose(leaf, {}, leaf.shape).why, "it has no source");
  const Transfer plain = stacked_kernel(1000, 3, 1400);
  const std::vector<const Transfer*> all{&plain};
  EXPECT_EQ(link_grid(leaf, all, true, leaf.shape, 64 * kMiB, {}).why, "a part of it is filled in");
}

}  // namespace
}  // namespace hfshard
