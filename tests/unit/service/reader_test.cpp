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

}  // namespace
}  // namespace hfshard
