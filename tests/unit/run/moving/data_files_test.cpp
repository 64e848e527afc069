// Regions of data files arrive where they belong, in whatever blocks they are written.

#include "run/moving/data_files.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "unit/run/run_support.h"

namespace hfshard {
namespace {

std::size_t open_descriptors() {
  std::size_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    out += !entry.path().empty();
  }
  return out;
}

class Names final : public Placements {
 public:
  std::string file_path(std::uint32_t file) const override { return "d/" + std::to_string(file); }
  std::uint32_t file_count() const override { return 4; }
  Place place(std::uint32_t, const Shape&) const override { return {}; }
};

class DataFilesTest : public testing::Test {
 protected:
  DataFilesTest() { make_directories(dir_ / "d"); }

  TempDir dir_;
  Names names_;
};

// A region is written in blocks: the second one must not land on the first.
TEST_F(DataFilesTest, ALargeRegionIsWrittenWhole) {
  for (const IoMode mode : {IoMode::automatic, IoMode::buffered}) {
    const std::size_t begin = 8192;
    std::string text(begin + (std::size_t{19} << 20) + 4096, 'x');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>((i * 2654435761U) >> 13 & 0x7fU);
    DataFiles files(names_, dir_.path(), "", mode, Limits().cached_bytes);
    const auto bytes = std::as_bytes(std::span(text));
    files.write(1, begin, bytes.subspan(begin));
    files.write(1, 0, bytes.first(begin));
    files.written(1, {0, text.size()});
    files.sync(1, 1);
    EXPECT_TRUE(read_file(dir_ / names_.file_path(1)) == text);
    std::filesystem::remove(dir_ / names_.file_path(1));
  }
}

// A model has thousands of data files, and a process a thousand descriptors.
TEST_F(DataFilesTest, FilesThatAreDurableAreClosedButForTheLast) {
  DataFiles files(names_, dir_.path(), "", IoMode::buffered, Limits().cached_bytes);
  const std::size_t before = open_descriptors();
  const std::string text(100, 'x');
  for (const std::uint32_t file : {0U, 1U, 2U})
    files.write(file, 0, std::as_bytes(std::span(text)));
  EXPECT_EQ(open_descriptors(), before + 3);
  files.sync(0, 2);
  EXPECT_EQ(open_descriptors(), before + 1);
  files.write(2, 100, std::as_bytes(std::span(text)));
  EXPECT_EQ(open_descriptors(), before + 1);
  files.sync(2, 2);
  for (const std::uint32_t file : {0U, 1U, 2U})
    EXPECT_EQ(read_file(dir_ / names_.file_path(file)).size(), file == 2 ? 200U : 100U);
}

}  // namespace
}  // namespace hfshard
