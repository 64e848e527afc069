#include "format/torch/mesh.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/torch/join.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Crcs = std::vector<std::uint32_t>;
constexpr std::uint8_t kCopies = kReplicated;

// A tensor with equal parts along its first dim. CRC 0 means that the file has no checksum.
struct MeshTensor {
  std::vector<StoredView> views;

  MeshTensor(const Shape& whole, const std::vector<Placement>& placements, const Shape& local,
             const Crcs& crcs, const DeviceMesh& stated = {}) {
    for (const std::uint32_t crc : crcs) {
      StoredView& view = views.emplace_back();
      view.name = "w";
      view.dtype = DType::u8;
      view.units = local;
      view.strides = local.strides();
      if (crc != 0) view.crc = crc;
      view.shard = Shard{whole, placements, stated};
    }
  }
  Parts parts() const {
    Parts out;
    for (const StoredView& each : views) out.push_back(&each);
    return out;
  }
};

// Returns the ranks whose parts are taken, in the tensor's order, and then the ranks' first rows.
using Rows = std::vector<std::vector<std::uint64_t>>;
Rows joined_rows(const std::vector<MeshTensor>& tensors) {
  RankMeshes meshes;
  for (const MeshTensor& each : tensors) meshes.narrow(each.parts());
  Rows out;
  for (const MeshTensor& each : tensors) {
    std::vector<std::uint64_t>& rows = out.emplace_back();
    for (const AssembledBox& box : join_ranks(each.parts(), meshes).boxes) {
      rows.push_back(box.file);
      rows.push_back(box.begin[0]);
    }
  }
  return out;
}

const Crcs kNone(8, 0);
const Crcs kOn222{1, 1, 2, 2, 1, 1, 2, 2};
const Crcs kOn124{1, 1, 1, 1, 2, 2, 2, 2};
const Crcs kOn421{1, 2, 1, 2, 1, 2, 1, 2};
const std::vector<Placement> kMiddle{kCopies, 0, kCopies};

MeshTensor middle(const Crcs& crcs, const DeviceMesh& stated = {}) {
  return {{4, 3}, kMiddle, {2, 3}, crcs, stated};
}

TEST(RankMeshes, ReplicasTellOnWhichMeshTheyAre) {
  EXPECT_EQ(joined_rows({middle(kOn222)}), (Rows{{0, 0, 2, 2}}));
  EXPECT_EQ(joined_rows({middle(kOn124)}), (Rows{{0, 0, 4, 2}}));
  EXPECT_EQ(joined_rows({middle(kOn421)}), (Rows{{0, 0, 1, 2}}));
}

TEST(RankMeshes, SeveralMeshesThatJoinDifferentlyAreRefusedByName) {
  const Error error = catch_error([] { joined_rows({middle(kNone)}); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  for (const char* mesh : {"(1, 2, 4)", "(2, 2, 2)", "(4, 2, 1)"})
    EXPECT_NE(error.sentence().find(mesh), std::string::npos) << error.sentence();
  EXPECT_FALSE(error.hint_text().empty());
  const Error equal = catch_error([] { joined_rows({middle(Crcs(8, 1))}); });
  EXPECT_EQ(equal.code(), ErrorCode::unsupported) << "all values are equal";
}

TEST(RankMeshes, SeveralMeshesThatJoinAlikeAreAllRight) {
  EXPECT_EQ(joined_rows({MeshTensor({4, 3}, {kCopies, kCopies, 0}, {2, 3}, kNone)}),
            (Rows{{0, 0, 1, 2}}));
  EXPECT_EQ(joined_rows({MeshTensor({4, 3}, {kCopies, kCopies}, {4, 3}, kNone)}), (Rows{{0, 0}}));
}

TEST(RankMeshes, OneTensorTellsTheMeshOfTheOthers) {
  const MeshTensor cut{{4, 4}, {1, 0, kCopies}, {2, 2}, kNone};  // only on 2x2x2
  EXPECT_EQ(joined_rows({middle(kNone), cut})[0], (Rows::value_type{0, 0, 2, 2}));
  EXPECT_EQ(joined_rows({middle(kOn421), middle(kNone)})[1], (Rows::value_type{0, 0, 1, 2}));
  EXPECT_EQ(joined_rows({middle(kNone), middle(kOn124)})[0], (Rows::value_type{0, 0, 4, 2}));
  const Error error = catch_error([] { joined_rows({middle(kOn124), middle(kOn222)}); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  const MeshTensor pair{{4, 3}, {kCopies, 0}, {2, 3}, kNone};  // has a mesh of its own
  EXPECT_EQ(joined_rows({middle(kOn124), pair})[1], (Rows::value_type{0, 0, 1, 2}));
}

TEST(RankMeshes, AMeshThatIsNotStatedHasAtMostFourAxes) {
  const auto copies = [](std::size_t axes) {
    return MeshTensor({4, 3}, std::vector<Placement>(axes, kCopies), {4, 3}, Crcs(2, 0));
  };
  EXPECT_EQ(joined_rows({copies(4)}), (Rows{{0, 0}}));
  EXPECT_EQ(catch_error([&] { joined_rows({copies(5)}); }).code(), ErrorCode::corrupt);
}

TEST(RankMeshes, TheMeshThatTheFilesStateCounts) {
  EXPECT_EQ(joined_rows({middle(kNone, {1, 2, 4})}), (Rows{{0, 0, 4, 2}}));
  EXPECT_EQ(joined_rows({middle(kNone, {4, 2, 1})}), (Rows{{0, 0, 1, 2}}));
  EXPECT_EQ(joined_rows({middle(kOn222, {2, 2, 2})}), (Rows{{0, 0, 2, 2}}));
  for (const DeviceMesh& mesh :
       std::vector<DeviceMesh>{{1, 2, 4}, {2, 4, 1}, {1, 2, 2}, {0, 2, 4}}) {
    const Error error = catch_error([&] { joined_rows({middle(kOn222, mesh)}); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << mesh[0] << mesh[1] << mesh[2];
  }
  MeshTensor mixed = middle(kNone, {2, 2, 2});
  mixed.views[3].shard->mesh = {1, 2, 4};
  EXPECT_EQ(catch_error([&] { joined_rows({mixed}); }).code(), ErrorCode::corrupt);
  MeshTensor swapped = middle(kNone, {2, 2, 2});
  for (StoredView& view : swapped.views) view.shard->is_in_order = false;
  EXPECT_EQ(catch_error([&] { joined_rows({swapped}); }).code(), ErrorCode::unsupported);
}

TEST(RankMeshes, ARefusalSaysTheMeshAndTheParts) {
  const auto refused = [](const MeshTensor& tensor) {
    return catch_error([&] { joined_rows({tensor}); });
  };
  const std::string full =
      "save the full state (torch.distributed.checkpoint.state_dict, full_state_dict)";
  MeshTensor swapped = middle(kNone, {2, 2, 2});
  swapped.views[3].shard->is_in_order = false;
  EXPECT_EQ(refused(swapped).sentence(),
            "the ranks of the tensor's mesh (2, 2, 2) aren't 0, 1, 2, ... in this order");
  EXPECT_EQ(refused(swapped).hint_text(), full);
  EXPECT_EQ(refused(middle(kNone)).sentence(),
            "the files don't state the device mesh of their 8 ranks; the meshes (1, 2, 4) and "
            "(2, 2, 2) and (4, 2, 1) fit, but join the tensor differently");
  EXPECT_EQ(refused(middle(kNone)).hint_text(), full);
  MeshTensor other = middle(kNone);
  other.views[7].shard->placements = {0, kCopies, kCopies};
  EXPECT_EQ(refused(other).sentence(),
            "ranks have different shapes, placements or meshes of the same tensor");
  const Error values = refused(middle({1, 1, 2, 2, 1, 1, 2, 3}, {2, 2, 2}));
  EXPECT_EQ(values.sentence(), "ranks have different values of the same part of the tensor");
  EXPECT_EQ(values.hint_text(),
            "pass --exclude with its name, or check which rank's file is right");
}

TEST(RankMeshes, PartsThatDoNotFormTheTensorAreSaidWithTheStatedMesh) {
  const auto said = [](const MeshTensor& tensor) {
    return catch_error([&] { joined_rows({tensor}); }).sentence();
  };
  EXPECT_EQ(said(middle(kNone, {8, 1, 1})),
            "the parts of 8 ranks don't form the tensor of 4x3 on the mesh (8, 1, 1)");
  EXPECT_EQ(said(middle(kNone, {1, 2, 2})),
            "the parts of 8 ranks don't form the tensor of 4x3 on the mesh (1, 2, 2)")
      << "a mesh of four ranks";
  EXPECT_EQ(said(MeshTensor({5, 3}, {0}, {2, 3}, Crcs(2, 0))),
            "the parts of 2 ranks don't form the tensor of 5x3");
}

}  // namespace
}  // namespace hfshard::format::torch
