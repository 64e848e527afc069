#include "plan/cost/mesh_load.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A leaf [48, 32] of bf16 in chunks [12, 8] with checksums. fsdp splits the first dim, tensor the
// second.
class Load : public testing::Test {
 protected:
  Load() {
    leaf_.name = "x";
    leaf_.shape = {48, 32};
    leaf_.axes = {"embed", "mlp"};
    cut({12, 8}, {12, 8});
  }

  void cut(const Shape& chunk, const Shape& inner) {
    cut_ = {};
    cut_.grids.push_back({{48, 32}, chunk, inner});
    UnitForm unit;
    unit.form.cell_bytes = 2 * inner.numel();
    unit.form.cell_suffix_bytes = 4;
    unit.form.cells = static_cast<std::uint32_t>(chunk.numel() / inner.numel());
    unit.form.tail_bytes = unit.form.cells > 1 ? 16 * unit.form.cells + 4 : 0;
    unit.form.head_bytes = head_bytes_;
    cut_.units.push_back(unit);
  }

  LoadCost cost(const std::string& mesh, std::uint64_t devices_per_host = 1) {
    CompiledModel model;
    model.leaves.push_back(leaf_);
    FileLayout files;
    files.refused_request_bytes = kLimit;
    files.ceil_shards = ceil_shards_;
    const Layout layout(make_model(Catalog{}, model), cut_, {}, false, files);
    return load_cost(layout, rules_, parse_mesh(mesh, rules_), devices_per_host);
  }

  static constexpr std::uint64_t kLimit = std::uint64_t{96} * 1000 * 1000 * 1000;
  std::uint32_t head_bytes_ = 0;
  bool ceil_shards_ = false;
  Leaf leaf_;
  CutLeaves cut_;
  AxisRules rules_ = parse_axis_rules(
      R"([["embed", ["fsdp"]], ["mlp", ["tensor"]], ["batch", ["data"]]])", "test");
};

// torch cuts such an axis by ceiling division. The last device's part is smaller.
TEST_F(Load, AnAxisThatTheMeshDoesNotDivideIsCutIntoLongerParts) {
  ceil_shards_ = true;
  const LoadCost found = cost("fsdp=5");
  ASSERT_EQ(found.hosts.size(), 5U);
  for (std::size_t host = 0; host < 5; ++host)
    EXPECT_EQ(found.hosts[host].needed_bytes, (host < 4 ? 10U : 8U) * 32 * 2) << host;
}

TEST_F(Load, AGridThatRefinesTheMeshReadsWhatIsNeeded) {
  const LoadCost found = cost("fsdp=4,tensor=2");
  ASSERT_EQ(found.hosts.size(), 8U);
  for (const HostLoad& host : found.hosts) {
    EXPECT_EQ(host.needed_bytes, 12U * 16 * 2);
    EXPECT_EQ(host.requests, 2U);
    EXPECT_EQ(host.read_bytes, 2U * (12 * 8 * 2 + 4));
  }
  EXPECT_EQ(found.largest_request_bytes, 12U * 16 * 2);
}

// A DCP has an archive around every chunk.
TEST_F(Load, WhatIsAroundAChunkComesWithIt) {
  head_bytes_ = 150;
  cut({12, 8}, {12, 8});
  for (const HostLoad& host : cost("fsdp=4,tensor=2").hosts) {
    EXPECT_EQ(host.requests, 2U);
    EXPECT_EQ(host.read_bytes, 2U * (12 * 8 * 2 + 4 + 150));
  }
}

TEST_F(Load, AChunkAcrossShardsIsReadForBoth) {
  cut({20, 32}, {20, 32});  // also ragged: chunks of 20, 20, 8 rows
  const LoadCost found = cost("fsdp=2");
  ASSERT_EQ(found.hosts.size(), 2U);
  for (const HostLoad& host : found.hosts) {
    EXPECT_EQ(host.needed_bytes, 24U * 32 * 2);
    EXPECT_EQ(host.requests, 2U);
    EXPECT_EQ(host.read_bytes, 2U * (20 * 32 * 2 + 4));
  }
}

TEST_F(Load, NoMoreDevicesAreCountedThanThereAre) {
  EXPECT_EQ(catch_error([&] { cost("data=65537"); }).code(), ErrorCode::limit);
  EXPECT_EQ(catch_error([&] { cost("data=4294967296,fsdp=4294967296"); }).code(), ErrorCode::limit);
  EXPECT_EQ(catch_error([&] { cost("data=512", 257); }).code(), ErrorCode::limit);
  EXPECT_EQ(cost("data=512", 256).hosts.size(), 2U);
}

TEST_F(Load, AFinerMeshReadsWholeChunks) {
  const LoadCost found = cost("fsdp=16");
  ASSERT_EQ(found.hosts.size(), 16U);
  EXPECT_EQ(found.hosts[0].needed_bytes, 3U * 32 * 2);
  EXPECT_EQ(found.hosts[0].requests, 4U);
  EXPECT_EQ(found.hosts[0].read_bytes, 4U * (12 * 8 * 2 + 4));
  EXPECT_EQ(found.needed_bytes(), 48U * 32 * 2);
  EXPECT_EQ(found.read_bytes(), 16U * 4 * (12 * 8 * 2 + 4));
}

TEST_F(Load, ShardsThatAreNoChunksTouchTheirNeighbors) {
  cut({16, 32}, {16, 32});
  const LoadCost found = cost("fsdp=4");  // rows 12 .. 24 are in two chunks
  EXPECT_EQ(found.hosts[0].requests, 1U);
  EXPECT_EQ(found.hosts[1].requests, 2U);
  EXPECT_EQ(found.hosts[3].requests, 1U);
}

TEST_F(Load, AHostReadsAChunkOnceHoweverManyOfItsDevicesWantIt) {
  const LoadCost replicated = cost("tensor=2,data=4", 8);
  EXPECT_EQ(replicated.hosts[0].needed_bytes, 48U * 32 * 2);
  EXPECT_EQ(replicated.hosts[0].requests, 16U);
  const LoadCost shared = cost("fsdp=16", 4);  // four devices share each row of chunks
  EXPECT_EQ(shared.hosts[0].needed_bytes, 12U * 32 * 2);
  EXPECT_EQ(shared.hosts[0].requests, 4U);
  cut({16, 32}, {16, 32});
  EXPECT_EQ(cost("fsdp=4", 2).hosts[0].requests, 2U);  // rows 0 .. 24 of both: two chunks
}

TEST_F(Load, InnerChunksAreFetchedOneByOneAfterTheIndex) {
  cut({24, 32}, {12, 8});
  const LoadCost found = cost("fsdp=4");
  EXPECT_EQ(found.hosts[0].requests, 1U + 4);
  EXPECT_EQ(found.hosts[0].read_bytes, 4U * (12 * 8 * 2 + 4) + (16 * 8 + 4));
}

TEST_F(Load, RequestsThatOrbaxRefusesAreNamed) {
  EXPECT_TRUE(cost("fsdp=4").refused.empty());
  leaf_.shape = {std::uint64_t{1} << 20, std::uint64_t{1} << 17};
  cut({std::uint64_t{1} << 20, 8}, {std::uint64_t{1} << 20, 8});
  const LoadCost found = cost("fsdp=4");  // each shard reads all of 2^38 bytes
  EXPECT_EQ(found.largest_request_bytes, std::uint64_t{1} << 38);
  EXPECT_EQ(found.refused, std::vector<std::uint32_t>{0});
  EXPECT_TRUE(cost("tensor=16").refused.empty());
}

// The bytes around a chunk's cells give their places: one more request for both.
TEST_F(Load, TheHeadOfAChunkIsReadWithItsTail) {
  cut({12, 8}, {6, 8});
  const HostLoad plain = cost("fsdp=4,tensor=2").hosts[0];
  UnitForm unit = cut_.units[0];
  unit.form.head_bytes = 100;
  cut_.units = {};
  cut_.units.push_back(unit);
  const HostLoad found = cost("fsdp=4,tensor=2").hosts[0];
  EXPECT_EQ(found.requests, plain.requests);
  EXPECT_EQ(found.read_bytes, plain.read_bytes + 2U * 100);
}

TEST_F(Load, ARequestOfExactlyTheLimitIsRefused) {
  leaf_.shape = {kLimit / 2 / 8, 8};
  cut({1, 8}, {1, 8});
  const LoadCost found = cost("fsdp=1");
  EXPECT_EQ(found.largest_request_bytes, kLimit);
  EXPECT_EQ(found.refused, std::vector<std::uint32_t>{0});
  leaf_.shape[0] -= 1;
  EXPECT_TRUE(cost("fsdp=1").refused.empty());
}

// A dimension that two mesh axes split has the product of their shards.
TEST_F(Load, TwoMeshAxesOfOneDimensionCountTogether) {
  rules_ = parse_axis_rules(R"([["embed", ["fsdp", "expert"]]])", "test");
  EXPECT_EQ(cost("fsdp=2,expert=2", 4).hosts[0].needed_bytes, 48U * 32 * 2);
  const LoadCost found = cost("fsdp=2,expert=2");
  EXPECT_EQ(found.needed_bytes(), 48U * 32 * 2);
  for (const HostLoad& host : found.hosts) EXPECT_EQ(host.requests, 4U);
}

// torch gives the last devices of a long axis nothing.
TEST_F(Load, DevicesBehindTheEndOfALeafReadNothing) {
  ceil_shards_ = true;
  const LoadCost found = cost("fsdp=20");
  ASSERT_EQ(found.hosts.size(), 20U);
  for (std::size_t host = 0; host < 20; ++host) {
    EXPECT_EQ(found.hosts[host].needed_bytes, (host < 16 ? 3U : 0U) * 32 * 2) << host;
    EXPECT_EQ(found.hosts[host].requests, host < 16 ? 4U : 0U) << host;
  }
  EXPECT_EQ(found.needed_bytes(), 48U * 32 * 2);
  EXPECT_EQ(cost("fsdp=20", 20).hosts[0].needed_bytes, 48U * 32 * 2);
}

TEST_F(Load, ALeafWithoutElementsIsNotRead) {
  leaf_.shape = {0, 32};
  const LoadCost found = cost("fsdp=4");
  EXPECT_EQ(found.needed_bytes(), 0U);
  EXPECT_EQ(found.read_bytes(), 0U);
  EXPECT_EQ(found.hosts[0].requests, 0U);
  EXPECT_TRUE(found.refused.empty());
}

// The devices of a host hold the first and the third quarter, or the second and the last one.
TEST_F(Load, NothingBetweenTheShardsOfAHostIsRead) {
  rules_ = parse_axis_rules(R"([["embed", ["fsdp", "expert"]]])", "test");
  const LoadCost found = cost("expert=2,fsdp=2", 2);
  ASSERT_EQ(found.hosts.size(), 2U);
  for (const HostLoad& host : found.hosts) {
    EXPECT_EQ(host.needed_bytes, 24U * 32 * 2);
    EXPECT_EQ(host.requests, 8U);
    EXPECT_EQ(host.read_bytes, 8U * (12 * 8 * 2 + 4));
  }
}

TEST_F(Load, HostsMustDivideTheMesh) {
  const Error error = catch_error([&] { cost("fsdp=4", 3); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "4 devices of the mesh fsdp=4 don't divide into hosts of 3");
  EXPECT_EQ(catch_error([&] { cost("data=512", 257); }).sentence(),
            "257 devices on one host; hfshard counts at most 256");
  EXPECT_EQ(catch_error([&] { cost("data=65537"); }).sentence(),
            "the mesh data=65537 has more than 65536 devices");
  EXPECT_EQ(cost("data=65536", 256).hosts.size(), 256U);
}

}  // namespace
}  // namespace hfshard
