// Writes objects next to tensors, and reads them again.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "catalog/checkpoint.h"
#include "format/dcp/metadata.h"
#include "format/dcp/write.h"
#include "format/formats.h"
#include "format/pickle.h"
#include "format/torch_dtype.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard::format::dcp {
namespace {

class NoPlaces final : public Placements {
 public:
  std::string file_path(std::uint32_t) const override { return {}; }
  std::uint32_t file_count() const override { return 0; }
  Place place(std::uint32_t, const Shape&) const override { return {}; }
};

// Returns `.metadata` for objects of these sizes, which are consecutive in `file`.
std::string metadata_of(const std::vector<ObjectInfo>& objects, const std::string& file,
                        const std::vector<NestedName>& nested = {}) {
  const std::vector<Leaf> leaves;
  const PerLeaf<Grid> grids;
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  tree.nested = &nested;
  tree.objects.file = file;
  for (const ObjectInfo& object : objects) tree.objects.items.push_back(&object);
  std::string out;
  write_metadata(tree, NoPlaces(),
                 [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

// Puts each chunk into a file of its row, a thousand bytes behind the one before.
class RowPlaces final : public Placements {
 public:
  std::string file_path(std::uint32_t file) const override {
    return "__" + std::to_string(file) + "_0.distcp";
  }
  std::uint32_t file_count() const override { return 3; }
  Place place(std::uint32_t, const Shape& chunk) const override {
    return {static_cast<std::uint32_t>(chunk[0]), chunk[1] * 1000, 0};
  }
};

// Returns `.metadata` for a tensor of two dims in such chunks.
std::string metadata_of_chunks(const Leaf& leaf, const Shape& chunk) {
  const std::vector<Leaf> leaves{leaf};
  PerLeaf<Grid> grids;
  grids.push_back({chunk, chunk, chunk});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  std::string out;
  write_metadata(tree, RowPlaces(),
                 [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

// Returns such a tensor, written and read again.
StoredTensor written_tensor(DType dtype, const Shape& shape, const Shape& chunk) {
  const Leaf leaf{{"w", dtype, shape}, {}, {}};
  const Metadata found = read_metadata(metadata_of_chunks(leaf, chunk), "memory");
  const PieceForm form = piece_form(leaf, {chunk, chunk, chunk}, {});
  for (const StoredBox& box : found.tensors.at(0).boxes) {
    EXPECT_EQ(box.place.length_bytes,
              form.head_bytes + box.extent.numel() * unit_bytes(dtype) + form.tail_bytes);
    EXPECT_EQ(found.files[box.place.file],
              RowPlaces().file_path(static_cast<std::uint32_t>(box.begin[0] / chunk[0])));
  }
  return found.tensors[0];
}

ObjectInfo object_of(const std::string& name, std::uint64_t bytes,
                     std::vector<std::string> transforms = {}) {
  return {name, 0, {0, bytes}, std::move(transforms)};
}

TEST(DcpMetadataWriter, ObjectsAreReadAgain) {
  const std::vector<NestedName> nested{{"a.0.lr", R"(["a",0,"lr"])"},
                                       {"deep", R"(["d","e",1,2,"p"])"}};
  const Metadata found = read_metadata(
      metadata_of({object_of("a.0.lr", 5), object_of("deep", 1ULL << 33, {"stream.zstd/1", "x"}),
                   object_of("flag", 7, {"stream.zstd/1"})},
                  "__00003_0.distcp", nested),
      "memory");
  ASSERT_EQ(found.objects.size(), 3U);
  EXPECT_TRUE(found.tensors.empty());
  EXPECT_EQ(found.files, std::vector<std::string>{"__00003_0.distcp"});
  EXPECT_EQ(found.nested, nested);
  EXPECT_EQ(found.objects[0].place.range(), (ByteRange{0, 5}));
  EXPECT_EQ(found.objects[1].place.range(), (ByteRange{5, 5 + (1ULL << 33)}));
  EXPECT_EQ(found.objects[1].transforms, (std::vector<std::string>{"stream.zstd/1", "x"}));
  EXPECT_EQ(found.objects[2].transforms, std::vector<std::string>{"stream.zstd/1"});
  EXPECT_EQ(found.objects[2].place.range(), (ByteRange{5 + (1ULL << 33), 12 + (1ULL << 33)}));
}

TEST(DcpMetadataWriter, ChunksEndWhereTheirTensorEnds) {
  const StoredTensor found = written_tensor(DType::bf16, {5, 3}, {2, 2});
  EXPECT_EQ(found.name, "w");
  EXPECT_EQ(found.dtype, DType::bf16);
  EXPECT_EQ(found.shape, (Shape{5, 3}));
  std::vector<std::pair<Shape, Shape>> boxes;
  std::vector<std::uint64_t> offsets;
  for (const StoredBox& box : found.boxes) {
    boxes.emplace_back(box.begin, box.extent);
    offsets.push_back(box.place.offset_bytes);
  }
  EXPECT_EQ(boxes, (std::vector<std::pair<Shape, Shape>>{{{0, 0}, {2, 2}},
                                                         {{0, 2}, {2, 1}},
                                                         {{2, 0}, {2, 2}},
                                                         {{2, 2}, {2, 1}},
                                                         {{4, 0}, {1, 2}},
                                                         {{4, 2}, {1, 1}}}));
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 1000, 0, 1000, 0, 1000}));
}

// torch finds a chunk by the name, the begin and the index together.
TEST(DcpMetadataWriter, EachChunkHasItsIndexAndAnObjectHasNone) {
  const auto places = [](const std::string& text) {
    const Pickle pickle(text, "memory", Persistent::refused);
    std::vector<std::pair<std::string, std::int64_t>> out;
    const auto visit = [&](std::span<const Pickle::Id> run) {
      for (std::size_t i = 0; i < run.size(); i += 2) {
        const Pickle::Id key = pickle.state(run[i]).value();
        const Pickle::Id index = pickle.find(key, "index").value();
        out.emplace_back(pickle.text(pickle.find(key, "fqn").value()),
                         pickle.is(index, Pickle::Kind::none) ? -1 : pickle.integer(index));
      }
    };
    const Pickle::Id root = pickle.state(pickle.root()).value();
    pickle.for_each_run(pickle.find(root, "storage_data").value(), visit);
    return out;
  };
  using Places = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(places(metadata_of_chunks({{"w", DType::u8, {5, 3}}, {}, {}}, {2, 2})),
            (Places{{"w", 0}, {"w", 1}, {"w", 2}, {"w", 3}, {"w", 4}, {"w", 5}}));
  EXPECT_EQ(places(metadata_of({object_of("a", 4), object_of("b", 2)}, "f")),
            (Places{{"a", -1}, {"b", -1}}));
}

TEST(DcpMetadataWriter, ObjectsOfRanksThatDifferAreNamed) {
  const TempDir dir;
  for (const std::string rank : {"0", "1"}) {
    write_text(
        dir / ("__" + rank + ".metadata"),
        metadata_of({object_of("random", 4), object_of("step", 2)}, "__" + rank + "_0.distcp"));
    write_text(dir / ("__" + rank + "_0.distcp"), "rng" + rank + "77");
  }
  const auto opened = open_checkpoint(dir.path());
  const Catalog& catalog = opened->catalog();
  ASSERT_EQ(catalog.objects.size(), 2U);
  EXPECT_EQ(catalog.object_files[catalog.objects[0].file].text(), dir / "__0_0.distcp");
  EXPECT_EQ(catalog.notes,
            (std::vector<std::string>{
                "ranks stored different objects under one name; hfshard reads only the first "
                "rank's: \"random\"",
                "each of 2 ranks wrote its own metadata (use_collectives=False), and torch loads "
                "each alone"}));
  write_text(dir / "__1_0.distcp", "rng077");
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().notes.size(), 1U) << "the same bytes";
  write_text(dir / "__1_0.distcp", "rng");
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().notes.size(), 2U) << "too short";
  write_text(dir / "__0_0.distcp", "rng");
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), dir / "__0_0.distcp");
  std::filesystem::remove(dir / "__1.metadata");
  std::filesystem::remove(dir / "__1_0.distcp");
  write_text(dir / "__0_0.distcp", "rng077");
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().notes,
            (std::vector<std::string>{"one rank wrote its own metadata (use_collectives=False), "
                                      "and torch loads each alone"}));
}

TEST(DcpWriting, OnlyNamesOfItsOwnFilesAreItsOwn) {
  for (const std::string name : {".metadata", "__00000_0.distcp", "__0_0.distcp"})
    EXPECT_TRUE(is_written_name(name)) << name;
  for (const std::string name :
       {"__00000_1.distcp", "__00000_0xdistcp", "__12345678901", "__0_0.distcp.tmp", "__0.distcp",
        "___0.distcp", "__a_0.distcp", "x__0_0.distcp", "__", "metadata"})
    EXPECT_FALSE(is_written_name(name)) << name;
}

TEST(DcpMetadataWriter, PathsOfNamesReachTheCatalog) {
  const TempDir dir;
  const std::vector<NestedName> nested{{"a.0", R"(["a",0])"}};
  write_text(dir / ".metadata",
             metadata_of({object_of("a.0", 3), object_of("b", 2)}, "__0_0.distcp", nested));
  write_text(dir / "__0_0.distcp", "12345");
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(opened->catalog().nested, nested);
  ASSERT_EQ(opened->catalog().objects.size(), 2U);
  EXPECT_EQ(opened->catalog().objects[1].range, (ByteRange{3, 5}));
}

}  // namespace
}  // namespace hfshard::format::dcp
