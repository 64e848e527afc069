// Regions of data files arrive at their places, for any blocks.

#include "run/engine/data_files.h"

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
  DataFiles::Leading leading_ = [](std::uint32_t, const ByteSink&) {};
};

// A region is written in blocks. The second must not overwrite the first.
TEST_F(DataFilesTest, ALargeRegionIsWrittenWhole) {
  for (const IoMode mode : {IoMode::automatic, IoMode::buffered}) {
    const std::size_t begin = 8192;
    std::string text(begin + (std::size_t{19} << 20) + 4096, 'x');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>((i * 2654435761U) >> 13 & 0x7fU);
    DataFiles files(names_, dir_.path(), leading_, mode, Limits().cached_bytes);
    const auto bytes = std::as_bytes(std::span(text));
    files.write(1, begin, bytes.subspan(begin));
    files.write(1, 0, bytes.first(begin));
    files.written(1, {0, text.size()});
    files.sync(1, 1);
    EXPECT_TRUE(read_file(dir_ / names_.file_path(1)) == text);
    std::filesystem::remove(dir_ / names_.file_path(1));
  }
}

// A model can have thousands of data files, but a process only a thousand descriptors.
TEST_F(DataFilesTest, FilesThatAreDurableAreClosedButForTheLast) {
  DataFiles files(names_, dir_.path(), leading_, IoMode::buffered, Limits().cached_bytes);
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

// Without alignment, regions meet within pages, and are written in any order.
TEST_F(DataFilesTest, RegionsAtAnyByteMeetBehindWhatStandsInFront) {
  std::string text(std::size_t{5} << 20, 'x');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>((i * 2654435761U) >> 11 & 0x7fU);
  const auto bytes = std::as_bytes(std::span(text));
  const std::vector<std::size_t> cuts = {57,     58,      4095,    4096,    4097,       9000,
                                         262143, 1048577, 2097152, 3145729, text.size()};
  for (const IoMode mode : {IoMode::automatic, IoMode::direct}) {
    const DataFiles::Leading leading = [&](std::uint32_t file, const ByteSink& sink) {
      EXPECT_EQ(file, 3U);
      sink(bytes.first(50));
      sink(bytes.subspan(50, 7));
    };
    DataFiles files(names_, dir_.path(), leading, mode, std::uint64_t{1} << 20);
    for (const std::size_t parity : {1U, 0U}) {
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        if (i % 2 == parity) files.write(3, cuts[i], bytes.subspan(cuts[i], cuts[i + 1] - cuts[i]));
      }
    }
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) files.written(3, {cuts[i], cuts[i + 1]});
    files.sync(3, 3);
    EXPECT_TRUE(read_file(dir_ / names_.file_path(3)) == text);
    std::filesystem::remove(dir_ / names_.file_path(3));
  }
}

}  // namespace
}  // namespace hfshard
