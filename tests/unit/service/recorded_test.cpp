#include "service/recorded.h"

#include <string>

#include <gtest/gtest.h>

#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(RecordedBelow, ARecordSpeaksOfTheWholeTree) {
  const TempDir dir;
  Reporter quiet;
  hfshard::convert(copy_fixture("qwen3", dir / "source"), {}, to_output(dir / "out"), quiet);
  const StorePath step(dir / "out/0");
  EXPECT_TRUE(recorded_below(step, ""));
  EXPECT_FALSE(recorded_below(step, "params"));
}

}  // namespace
}  // namespace hfshard
