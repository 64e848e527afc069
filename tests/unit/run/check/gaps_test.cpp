#include "run/check/gaps.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

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

// The bytes of each recorded file that belong to no piece.
std::map<std::string, std::vector<ByteRange>> gaps_of(const Checkpoint& opened) {
  std::map<std::string, std::vector<ByteRange>> pieces;
  for (std::uint32_t array = 0; array < opened.catalog().tensors.size(); ++array) {
    const Shape& shape = opened.catalog().tensors[array].shape;
    for_each_chunk(chunk_counts(shape, opened.catalog().grid_of(array).chunk),
                   [&](const Shape& piece) {
                     const auto place = opened.find_piece(array, piece);
                     if (place && place->range) pieces[place->file].push_back(*place->range);
                     return true;
                   });
  }
  std::map<std::string, std::vector<ByteRange>> out;
  for (auto& [file, ranges] : pieces) {
    std::ranges::sort(ranges, {}, &ByteRange::begin);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i - 1].end < ranges[i].begin)
        out[file].push_back({ranges[i - 1].end, ranges[i].begin});
    }
  }
  return out;
}

TEST(VerifyGaps, EachByteOfAGapCountsAndEachFileIsNamedOnce) {
  const TempDir dir;
  convert(small_plan(copy_fixture("qwen3", dir / "source")), to_output(dir / "out"));
  const std::string step = dir / "out/0";
  const auto opened = format_of("orbax").open(step);
  std::vector<FileRecord> files = read_manifest(join_path(step, kManifestName)).files.data;
  const auto found = [&] {
    VerifyResult result;
    verify_gaps(*opened, files, step, {}, result);
    std::vector<std::pair<std::string, std::string>> out;
    for (const Difference& item : result.differences) out.emplace_back(item.what, item.file);
    return out;
  };
  using Found = std::vector<std::pair<std::string, std::string>>;
  const auto sentence = [](std::uint64_t at, const std::string& path) {
    return std::pair(fmt::format("byte {} belongs to no array and isn't 0 ({})", at, path), path);
  };
  const auto gaps = gaps_of(*opened);
  ASSERT_GT(gaps.size(), 1U);
  EXPECT_EQ(found(), Found{});
  Found all;
  for (const auto& [path, ranges] : gaps) {
    const std::string bytes = read_file(path);
    for (const std::uint64_t at : {ranges.front().begin, ranges.front().end - 1}) {
      std::string changed = bytes;
      changed.at(at) = 1;
      write_text(path, changed);
      EXPECT_EQ(found(), Found{sentence(at, path)});
    }
    std::string changed = bytes;
    for (const ByteRange& range : ranges) changed.at(range.end - 1) = 1;
    write_text(path, changed);
    EXPECT_EQ(found(), Found{sentence(ranges.front().end - 1, path)});
    all.push_back(sentence(ranges.front().end - 1, path));
    if (all.size() == 2) break;
    write_text(path, bytes);
    all.clear();
    all.push_back(sentence(0, ""));
  }
  const auto& [path, ranges] = *gaps.begin();
  std::string changed = read_file(path);
  changed.at(ranges.front().begin) = 1;
  write_text(path, changed);
  all[0] = sentence(ranges.front().begin, path);
  EXPECT_EQ(found(), all);
  for (FileRecord& file : files) ++file.size_bytes;
  EXPECT_EQ(found(), Found{}) << "another size is told elsewhere";
}

}  // namespace
}  // namespace hfshard
