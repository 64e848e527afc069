#include "run/commit/linked_files.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(CheckLinks, EachWayInWhichALinkedFileChangedIsTold) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.link = true;
  const RunResult made = convert(small_plan(source, options), to_output(dir / "out"));
  const std::string step = join_path(dir / "out", "0");
  EXPECT_TRUE(check_links(step).empty()) << made.path;
  const auto only = [&] {
    const std::vector<LinkFinding> found = check_links(step);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? LinkFinding{} : found.front();
  };
  const std::string file = join_path(source, "model-00002-of-00002.safetensors");
  const auto written = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, written + std::chrono::seconds(1));
  EXPECT_NE(only().what.find("was written to"), std::string::npos);
  const std::uintmax_t size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  EXPECT_NE(only().what.find("has " + std::to_string(size - 1) + " bytes; it had " +
                             std::to_string(size)),
            std::string::npos)
      << only().what;
  remove_tree(only().file);
  EXPECT_EQ(only().what, "the linked file is missing");
}

}  // namespace
}  // namespace hfshard
