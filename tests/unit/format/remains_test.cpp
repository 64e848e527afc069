// Verify opens the remains of a damaged model.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "format/safetensors/format.h"
#include "format/safetensors/open.h"
#include "support/catch_error.h"
#include "support/read_piece.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format::safetensors {
namespace {

Choice despite_loss() {
  Choice out;
  out.despite_loss = true;
  return out;
}

TEST(Remains, TensorsBeforeTheEndOfACutFileAreRead) {
  const TempDir dir;
  SafetensorsBuilder builder;
  builder.tensor("a", DType::u8, {4}, "abcd").tensor("b", DType::u8, {4}, "efgh");
  const std::string whole = builder.build();
  write_text(dir / "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(catch_error([&] { open_hf(dir.path()); }).sentence(),
            "tensor data passes the end of the file");
  const auto opened = open_hf(dir.path(), despite_loss());
  ASSERT_EQ(opened->catalog().tensors.size(), 2U);
  EXPECT_TRUE(opened->catalog().lost.empty());
  EXPECT_EQ(read_piece(*opened, 0, 4), "abcd");
  const Error error = catch_error([&] { read_piece(*opened, 1, 4); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "tensor data passes the end of the file");
  EXPECT_EQ(error.tensor(), "b");
  EXPECT_EQ(error.file(), dir / "model.safetensors");
  EXPECT_EQ(error.range(), (ByteRange{whole.size() - 4, whole.size()}));
  EXPECT_EQ(error.total_bytes(), whole.size() - 1);
}

TEST(Remains, AFileThatIsTooLongIsLost) {
  const TempDir dir;
  const std::string whole = SafetensorsBuilder().tensor("a", DType::u8, {4}, "abcd").build();
  write_text(dir / "1.safetensors", whole + "x");
  SafetensorsBuilder().tensor("b", DType::u8, {4}, "efgh").write(dir / "2.safetensors");
  const auto opened = open_hf(dir.path(), despite_loss());
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(opened->catalog().tensors[0].name, "b");
  ASSERT_EQ(opened->catalog().lost.size(), 1U);
  EXPECT_EQ(opened->catalog().lost[0].file(), dir / "1.safetensors");
  EXPECT_EQ(opened->catalog().lost[0].code(), ErrorCode::corrupt);
  EXPECT_EQ(read_piece(*opened, 0, 4), "efgh");
}

// Only damage and absence are losses.
TEST(Remains, AFileThatCannotBeReadAtAllIsAnErrorAnyway) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::u8, {4})
      .lie_about("a", "dtype", "\"X9\"")
      .write(dir / "1.safetensors");
  EXPECT_EQ(catch_error([&] { open_hf(dir.path(), despite_loss()); }).code(),
            ErrorCode::unsupported);
}

TEST(PlainPieces, AnArrayHasOneOrNoneIfItIsEmpty) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::u8, {2, 3})
      .tensor("b", DType::u8, {2, 0})
      .tensor("c", DType::u8, {})
      .write(dir / "model.safetensors");
  const auto opened = open_hf(dir.path());
  EXPECT_TRUE(opened->has_piece(0, {0, 0}));
  EXPECT_FALSE(opened->has_piece(0, {0, 1}));
  EXPECT_FALSE(opened->has_piece(0, {1, 0}));
  EXPECT_FALSE(opened->has_piece(0, {0}));
  EXPECT_FALSE(opened->has_piece(1, {0, 0}));
  EXPECT_TRUE(opened->has_piece(2, {}));
}

TEST(PlainPieces, BytesAfterSkippedOnesAreRead) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::u8, {2}, "xy")
      .tensor("b", DType::u8, {6}, "abcdef")
      .write(dir / "model.safetensors");
  const auto opened = open_hf(dir.path());
  const auto reader = opened->open_piece(1, {0}, PieceSteps::any, {});
  std::string out(3, '?');
  const auto to = std::as_writable_bytes(std::span(out));
  reader->read(to.first(1));
  reader->skip(2);
  reader->read(to.subspan(1));
  EXPECT_EQ(out, "ade");
}

TEST(SafetensorsFormat, StoresTensorsAsTheyAre) {
  const FileLayout layout = safetensors_format().layout();
  EXPECT_EQ(layout.uncompressed, "tensors are stored as they are");
  EXPECT_EQ(layout.fixed_checksum, "tensors are stored as they are");
  EXPECT_FALSE(layout.has_steps);
  EXPECT_TRUE(layout.whole_arrays);
  const Leaf empty{{"w", DType::f32, {0, 4}}, {}, {}};
  EXPECT_EQ(safetensors_format().form(empty, {{1, 4}, {1, 4}, {1, 4}}, {}).cell_bytes, 0U);
  const Leaf full{{"w", DType::f32, {2, 4}}, {}, {}};
  EXPECT_EQ(safetensors_format().form(full, {{2, 4}, {2, 4}, {2, 4}}, {}).cell_bytes, 32U);
}

// A part of a tensor is in such a file, so it is no model.
TEST(SafetensorsFormat, PartsOfRanksAreNoModel) {
  const auto is_model = [](const std::vector<std::string>& names) {
    const TempDir place;
    for (const std::string& name : names) write_text(place / name, "x");
    return is_model_place(StorePath(place.path()));
  };
  const std::string part = "shard-00001-model-00001-of-00001.safetensors";
  EXPECT_FALSE(is_model({part}));
  EXPECT_TRUE(is_model({part, "model.safetensors"}));
  EXPECT_TRUE(is_model({"shard-a-model-00001-of-00001.safetensors"}));
  EXPECT_TRUE(is_model({"x.safetensors.index.json"}));
  EXPECT_FALSE(is_model({"config.json", "safetensors"}));
}

TEST(PlainPieces, AFileThatChangesLaterNamesTheTensor) {
  const TempDir dir;
  const std::string path = dir / "model.safetensors";
  SafetensorsBuilder().tensor("a", DType::u8, {4}, "abcd").write(path);
  const auto opened = open_hf(dir.path());
  const auto reader = opened->open_piece(0, {0}, PieceSteps::any, {});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::string out(4, '?');
  const Error cut = catch_error([&] { reader->read(std::as_writable_bytes(std::span(out))); });
  EXPECT_EQ(cut.tensor(), "a");
  EXPECT_EQ(cut.file(), path);
  const auto again = open_hf(dir.path(), despite_loss());
  std::filesystem::remove(path);
  const Error gone = catch_error([&] { read_piece(*again, 0, 4); });
  EXPECT_EQ(gone.tensor(), "a");
  EXPECT_EQ(gone.file(), path);
}

}  // namespace
}  // namespace hfshard::format::safetensors
