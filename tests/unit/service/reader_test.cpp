#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(Reader, AnEmptyReadBeginsWithinTheRowsOrAtTheirEnd) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("a", DType::u8, {2, 3}).part({0, 0}, {2, 3}, "abcdef", false);
  torch.write(dir.path());
  const CheckpointReader opened = open(dir.path());
  opened.read_rows(0, 2, {});
  EXPECT_EQ(catch_error([&] { opened.read_rows(0, 3, {}); }).code(), ErrorCode::usage);
}

TEST(Reader, RowsOfPackedElementsInPiecesArentAssembled) {
  const TempDir dir;
  TorchCheckpoint torch;
  const std::string tensor = "abcdefgh";
  torch.tensor("a", DType::f4, {4, 4})
      .part({0, 0}, {2, 4}, tensor, false)
      .part({2, 0}, {2, 4}, tensor, false);
  torch.write(dir.path());
  const CheckpointReader opened = open(dir.path());
  std::vector<std::byte> rows(8);
  const Error error = catch_error([&] { opened.read_rows(0, 0, rows); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.format();
  EXPECT_EQ(error.sentence(), "can't assemble rows of f4");
  EXPECT_EQ(error.tensor(), "a");
}

// Reads this many bytes of an array from a row on.
std::string rows_of(const CheckpointReader& opened, std::uint64_t begin, std::size_t bytes) {
  std::string out(bytes, '?');
  opened.read_rows(0, begin, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(Reader, RowsBeginAndEndWithinPieces) {
  const TempDir dir;
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEF";
  TorchCheckpoint torch;
  torch.tensor("a", DType::u8, {8, 4});
  for (const std::uint64_t row : {0U, 3U, 6U}) {
    for (const std::uint64_t column : {0U, 2U})
      torch.part({row, column}, {row == 6 ? 2U : 3U, 2}, letters, false);
  }
  torch.write(dir / "cut");
  TorchCheckpoint rows;
  rows.tensor("a", DType::u8, {8, 4});
  for (const std::uint64_t row : {0U, 3U, 6U})
    rows.part({row, 0}, {row == 6 ? 2U : 3U, 4}, letters, false);
  rows.write(dir / "rows");
  SafetensorsBuilder().tensor("a", DType::u8, {8, 4}, letters).write(dir / "x.safetensors");
  for (const char* place : {"cut", "rows", "x.safetensors"}) {
    const CheckpointReader opened = open(dir / place);
    for (std::uint64_t begin = 0; begin < 8; ++begin) {
      for (std::uint64_t count = 1; begin + count <= 8; ++count)
        EXPECT_EQ(rows_of(opened, begin, 4 * count), letters.substr(4 * begin, 4 * count))
            << place << begin << "+" << count;
    }
  }
}

TEST(Reader, ErrorsNameTheArrayAndTheSizesThatAreExpected) {
  const TempDir dir;
  const std::string letters = "abcdefghijkl";
  TorchCheckpoint torch;
  torch.tensor("a", DType::u8, {4, 3})
      .part({0, 0}, {2, 3}, letters, false)
      .part({2, 0}, {2, 3}, letters, false);
  torch.write(dir.path());
  const CheckpointReader opened = open(dir.path());
  EXPECT_EQ(opened.find("a"), 0U);
  EXPECT_FALSE(opened.find("b"));
  EXPECT_EQ(opened.piece_bytes(0), 6U);
  const auto expect = [&](const std::string& sentence, bool has_file, const auto& action) {
    const Error error = catch_error(action);
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.sentence(), sentence);
    EXPECT_EQ(error.file(), has_file ? dir.path() : "") << sentence;
    return error.tensor();
  };
  std::vector<std::byte> six(6);
  const auto few = std::span(six).first(4);
  EXPECT_EQ(
      expect("the buffer has 4 bytes, which is not 6", false, [&] { opened.read_rows(0, 0, few); }),
      "a");
  EXPECT_EQ(expect("rows [3, 5) are outside the 4 rows of the array", false,
                   [&] { opened.read_rows(0, 3, six); }),
            "a");
  EXPECT_EQ(expect("the buffer has 4 bytes, which is not 6", false,
                   [&] {
                     opened.read_piece(0, {0, 0}, few);
                   }),
            "a");
  std::vector<std::byte> seven(7);
  EXPECT_EQ(expect("the buffer has 7 bytes, which is not 6", false,
                   [&] {
                     opened.read_piece(0, {0, 0}, seven);
                   }),
            "a");
  EXPECT_EQ(expect("piece [2, 0] is outside the grid [2, 1]", true,
                   [&] {
                     opened.read_piece(0, {2, 0}, six);
                   }),
            "a");
  EXPECT_EQ(expect("piece [0, 1] is outside the grid [2, 1]", true,
                   [&] {
                     opened.has_piece(0, {0, 1});
                   }),
            "a");
  EXPECT_EQ(expect("piece [0] is outside the grid [2, 1]", true, [&] { opened.has_piece(0, {0}); }),
            "a");
  EXPECT_EQ(expect("array 1 doesn't exist: the checkpoint has 1", true,
                   [&] { opened.read_rows(1, 0, six); }),
            "");
}

TEST(Reader, TheStepThatIsAskedForIsOpened) {
  const TempDir dir;
  Reporter quiet;
  for (const std::uint64_t step : {3U, 12U}) {
    SafetensorsBuilder()
        .tensor("a", DType::u8, {2}, step == 3 ? "ab" : "cd")
        .write(dir / "x.safetensors");
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.step = step;
    hfshard::convert(dir / "x.safetensors", options, to_output(dir / "run"), quiet);
  }
  SourceName place(dir / "run");
  EXPECT_EQ(rows_of(open(place), 0, 2), "cd");
  place.step = 3;
  EXPECT_EQ(rows_of(open(place), 0, 2), "ab");
  EXPECT_EQ(open(place).info().path, dir / "run");
  place.step = 4;
  EXPECT_EQ(catch_error([&] { open(place); }).code(), ErrorCode::not_found);
  place.step = 3;
  place.items = "other";
  EXPECT_EQ(catch_error([&] { open(place); }).code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace hfshard
