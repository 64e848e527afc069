#include "run/check/gaps.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run/check/output_manifest.h"
#include "support/sizes.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Alignment can leave gaps of any length.
TEST(VerifyGaps, AByteFarIntoALongGapIsNamed) {
  const TempDir dir;
  convert(small_plan(copy_fixture("qwen3", dir / "source")), to_output(dir / "out"));
  const std::string step = dir / "out/0";
  const auto opened = format_of("orbax").open(step);
  std::vector<FileRecord> files = read_manifest(join_path(step, kManifestName)).files.data;
  FileRecord& record = files.front();
  const std::string path = join_path(step, record.path);
  const std::uint64_t at = record.size_bytes + 3 * kMiB + 17;
  std::filesystem::resize_file(path, at);
  record.size_bytes = at + 1;
  std::ofstream(path, std::ios::app | std::ios::binary) << 'x';
  VerifyResult result;
  verify_gaps(*opened, files, step, {}, result);
  ASSERT_EQ(result.differences.size(), 1U);
  EXPECT_EQ(result.differences[0].what,
            fmt::format("byte {} belongs to no array and isn't 0 ({})", at, path));
}

}  // namespace
}  // namespace hfshard
