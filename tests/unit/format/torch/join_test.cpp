#include "format/torch/join.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

StoredView view(const std::string& name, const Shape& units, std::uint32_t crc = 1) {
  StoredView out;
  out.name = name;
  out.dtype = DType::u8;
  out.units = units;
  out.strides = units.strides();
  out.crc = crc;
  return out;
}

Parts parts_of(const std::vector<StoredView>& views) {
  Parts out;
  for (const StoredView& each : views) out.push_back(&each);
  return out;
}

std::vector<Shape> begins(const Joined& joined) {
  std::vector<Shape> out;
  for (const AssembledBox& box : joined.boxes) out.push_back(box.begin);
  return out;
}

std::vector<StoredView> ranks(const Shape& whole, const std::vector<Placement>& placements,
                              const std::vector<Shape>& locals) {
  std::vector<StoredView> out;
  for (const Shape& local : locals) {
    out.push_back(view("w", local));
    out.back().shard = Shard{whole, placements};
  }
  return out;
}

Joined join_all(const std::vector<StoredView>& views) {
  RankMeshes meshes;
  meshes.narrow(parts_of(views));
  return join_ranks(parts_of(views), meshes);
}

TEST(JoinRanks, PartsOfOneDimFollowEachOtherAndMayBeEmpty) {
  const auto views = ranks({5, 3}, {0}, {{2, 3}, {2, 3}, {1, 3}, {0, 3}});
  const Joined joined = join_all(views);
  EXPECT_EQ(joined.units, (Shape{5, 3}));
  EXPECT_EQ(begins(joined), (std::vector<Shape>{{0, 0}, {2, 0}, {4, 0}}));
}

TEST(JoinRanks, OfReplicasTheFirstIsTaken) {
  const auto views = ranks({4, 3}, {kReplicated, 0}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}});
  const Joined joined = join_all(views);
  EXPECT_EQ(begins(joined), (std::vector<Shape>{{0, 0}, {2, 0}}));
  EXPECT_EQ(joined.boxes[1].file, 1U);
  const auto inner = ranks({4, 3}, {0, kReplicated}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}});
  EXPECT_EQ(join_all(inner).boxes[1].file, 2U);
}

TEST(JoinRanks, ReplicasWithOtherValuesAreCorrupt) {
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto views = ranks({4, 3}, {kReplicated, 0}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}});
    views[rank].crc = 2;
    EXPECT_EQ(catch_error([&] { join_all(views); }).code(), ErrorCode::corrupt) << rank;
    views[(rank + 2) % 4].crc = 2;  // the other one of the same part
    EXPECT_EQ(join_all(views).boxes.size(), 2U) << rank;
    views[rank].crc.reset();  // a file without checksums
    EXPECT_EQ(join_all(views).boxes.size(), 2U) << rank;
  }
}

// A CRC is that of the stored bytes, so it tells nothing of elements in another order.
TEST(JoinRanks, ReplicasInAnotherOrderAreNotCompared) {
  for (const bool is_offset : {false, true}) {
    auto views = ranks({4, 3}, {kReplicated}, {{4, 3}, {4, 3}});
    views[1].crc = 2;
    EXPECT_EQ(catch_error([&] { join_all(views); }).code(), ErrorCode::corrupt);
    if (is_offset) views[1].offset_bytes = 1;
    if (!is_offset) views[1].strides = {1, 4};
    EXPECT_EQ(join_all(views).boxes.size(), 1U);
  }
}

TEST(JoinRanks, TwoDimsAreCutByTwoAxes) {
  const auto views = ranks({3, 4}, {0, 1}, {{2, 2}, {2, 2}, {1, 2}, {1, 2}});
  EXPECT_EQ(begins(join_all(views)), (std::vector<Shape>{{0, 0}, {0, 2}, {2, 0}, {2, 2}}));
}

TEST(JoinRanks, WhatDoesNotMakeTheTensorIsCorrupt) {
  const auto code_of = [](const std::vector<StoredView>& views) {
    return catch_error([&] { join_all(views); }).code();
  };
  EXPECT_EQ(code_of(ranks({5, 3}, {0}, {{2, 3}, {2, 3}})), ErrorCode::corrupt);
  EXPECT_EQ(code_of(ranks({5, 3}, {}, {{5, 3}, {5, 3}})), ErrorCode::corrupt);
  EXPECT_EQ(code_of(ranks({4, 3}, {kReplicated, kReplicated, 0, 0, 0}, {{4, 3}})),
            ErrorCode::corrupt);
  std::vector<StoredView> mixed = ranks({4, 3}, {0}, {{2, 3}, {2, 3}});
  mixed[1].shard->shape = {5, 3};
  EXPECT_EQ(code_of(mixed), ErrorCode::corrupt);
  mixed[1] = view("w", {2, 3});
  EXPECT_EQ(code_of(mixed), ErrorCode::corrupt);
  mixed[1].dtype = DType::i8;
  EXPECT_EQ(code_of(mixed), ErrorCode::corrupt);
  mixed = ranks({4, 3}, {0}, {{2, 3}, {2, 3}});
  EXPECT_EQ(join_all(mixed).boxes.size(), 2U);
  mixed[1].dtype = DType::i8;
  EXPECT_EQ(code_of(mixed), ErrorCode::corrupt) << "only the dtype";
}

TEST(JoinRanks, AnOrdinaryTensorIsTheSameInAllFiles) {
  const std::vector<StoredView> same{view("w", {3}), view("w", {3})};
  EXPECT_EQ(join_all(same).boxes.size(), 1U);
  StoredView reversed = view("w", {3});
  reversed.strides = {2};
  StoredView later = view("w", {3});
  later.offset_bytes = 1;
  for (const StoredView& other : {view("w", {3}, 2), view("w", {4}), reversed, later}) {
    const std::vector<StoredView> views{view("w", {3}), other};
    EXPECT_EQ(catch_error([&] { join_all(views); }).code(), ErrorCode::unsupported);
  }
  StoredView unchecked = view("w", {3});
  unchecked.crc.reset();
  EXPECT_EQ(join_all({unchecked}).boxes.size(), 1U);
  EXPECT_EQ(catch_error([&] {
              join_all({unchecked, unchecked});
            }).code(),
            ErrorCode::unsupported)
      << "nothing tells whether they are equal";
}

TEST(JoinShards, ByTheRulesOfMetasLayers) {
  const auto joined = [](const std::string& name, const Shape& shard, std::uint64_t width) {
    const std::vector<StoredView> views{view(name, shard), view(name, shard)};
    return join_shards(parts_of(views), width).units;
  };
  EXPECT_EQ(joined("layers.0.attention.wq.weight", {4, 8}, 8), (Shape{8, 8}));
  EXPECT_EQ(joined("layers.0.attention.wo.weight", {8, 4}, 8), (Shape{8, 8}));
  EXPECT_EQ(joined("layers.0.feed_forward.w2.weight", {8, 6}, 8), (Shape{8, 12}));
  EXPECT_EQ(joined("tok_embeddings.weight", {16, 4}, 8), (Shape{16, 8}));
  EXPECT_EQ(joined("tok_embeddings.weight", {16, 8}, 8), (Shape{32, 8}));
  EXPECT_EQ(joined("norm.weight", {8}, 8), (Shape{8}));
  EXPECT_EQ(joined("tok_embeddings.weight", {8}, 8), (Shape{8})) << "not a matrix";
  const std::vector<StoredView> unknown{view("x", {8}, 1), view("x", {8}, 2)};
  EXPECT_EQ(catch_error([&] { join_shards(parts_of(unknown), 8); }).code(), ErrorCode::unsupported);
  const auto refusal = [](const std::string& name, const Shape& one, const Shape& other) {
    const std::vector<StoredView> views{view(name, one), view(name, other)};
    const Error error = catch_error([&] { join_shards(parts_of(views), 8); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    return error.sentence();
  };
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  EXPECT_EQ(refusal("layers.0.attention.wo.weight", {8}, {8}), "the tensor has too few dims");
  EXPECT_EQ(refusal("output.weight", {}, {}), "the tensor has too few dims");
  EXPECT_EQ(refusal("output.weight", {kHalf}, {kHalf}),
            "the shards of the tensor end beyond all sizes");
  EXPECT_EQ(refusal("norm.weight", {8}, {8, 1}),
            "the tensor is u8 of 8 in one file and u8 of 8x1 in another");
  const std::vector<StoredView> odd{view("output.weight", {8, 2}), view("output.weight", {8, 3})};
  EXPECT_EQ(catch_error([&] { join_shards(parts_of(odd), 8); }).code(), ErrorCode::corrupt);
}

TEST(JoinShards, ARefusalSaysWhichPartsDoNotFit) {
  const std::vector<StoredView> odd{view("output.weight", {8, 2}), view("output.weight", {8, 3})};
  EXPECT_EQ(catch_error([&] { join_shards(parts_of(odd), 8); }).sentence(),
            "shards of 8x2 and 8x3 don't fit each other");
  const std::vector<StoredView> unknown{view("x", {8}, 1), view("x", {8}, 2), view("x", {8}, 3)};
  const Error error = catch_error([&] { join_shards(parts_of(unknown), 8); });
  EXPECT_EQ(error.sentence(), "hfshard can't tell how to join the tensor's 3 parts");
  EXPECT_EQ(error.hint_text(),
            "merge the files with the program that wrote them, and save as safetensors");
}

TEST(JoinShards, EachWeightOfALayerHasItsDim) {
  const auto dim_of = [](const std::string& name) {
    const std::vector<StoredView> views{view(name, {4, 8}), view(name, {4, 8})};
    const Joined joined = join_shards(parts_of(views), 8);
    EXPECT_EQ(joined.boxes.size(), 2U) << name;
    EXPECT_EQ(joined.boxes[1].file, 1U) << name;
    return joined.boxes[1].begin[0] == 4 ? 0 : 1;
  };
  const std::string layer = "layers.31.";
  for (const char* rows :
       {"attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3"})
    EXPECT_EQ(dim_of(layer + rows + ".weight"), 0) << rows;
  for (const char* columns : {"attention.wo", "feed_forward.w2"})
    EXPECT_EQ(dim_of(layer + columns + ".weight"), 1) << columns;
  EXPECT_EQ(dim_of("output.weight"), 0);
  EXPECT_EQ(dim_of("tok_embeddings.weight"), 0);
}

}  // namespace
}  // namespace hfshard::format::torch
