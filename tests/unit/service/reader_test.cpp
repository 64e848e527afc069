#include <cstddef>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"

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

}  // namespace
}  // namespace hfshard
