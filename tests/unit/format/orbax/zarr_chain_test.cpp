// Chains of codecs that hfshard doesn't write, as other tools write them.

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/zarr/array.h"
#include "support/catch_error.h"
#include "support/deflate_streams.h"
#include "support/zstd_frames.h"
#include "unit/format/orbax/read_chunk.h"

namespace hfshard::format::orbax::zarr {
namespace {

const std::string kCells = "ABCDEFabcdefGHIJKLghijkl";  // four cells of 2 x 3 in a chunk of 4 x 6

std::string number(std::uint64_t value) {
  std::array<std::byte, 8> bytes{};
  store_le(bytes.data(), value);
  return std::string(as_text(bytes));
}

std::string summed(const std::string& bytes) {
  return bytes + number(crc32c(as_bytes(bytes))).substr(0, 4);
}

// 4 x 6 of u8; one chunk.
Array chain(const std::string& codecs, const std::string& fill = "0") {
  return parse_array(
      R"({"zarr_format":3,"node_type":"array","shape":[4,6],"data_type":"uint8","fill_value":)" +
          fill + R"(,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,6]}},)" +
          R"("chunk_key_encoding":{"name":"default"},"codecs":[)" + codecs + "]}",
      "f", "w");
}

std::string shards_of(const std::string& cells, const std::string& more,
                      const std::string& shape = "[2,3]") {
  return R"({"name":"sharding_indexed","configuration":{"chunk_shape":)" + shape +
         R"(,"codecs":[{"name":"bytes"})" + cells + R"(],)" + more + "}}";
}

const std::string kIndex =
    R"("index_codecs":[{"name":"bytes","configuration":{"endian":"little"}})";
const std::string kGzip = R"(,{"name":"gzip","configuration":{"level":1}})";
const std::string kZstdCodec = R"(,{"name":"zstd","configuration":{"level":1}})";
const std::string kCrcCodec = R"(,{"name":"crc32c"})";

// One chunk of so many u8.
Array row_of(std::size_t cells, const std::string& codecs) {
  const std::string size = std::to_string(cells);
  return parse_array(
      R"({"zarr_format":3,"node_type":"array","shape":[)" + size +
          R"(],"data_type":"uint8","fill_value":0,"chunk_grid":{"name":"regular",)"
          R"("configuration":{"chunk_shape":[)" +
          size + R"(]}},"chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"})" +
          codecs + "]}",
      "f", "w");
}

// Returns consecutive cells with their index, in front or behind.
std::string stored_shards(const std::vector<std::string>& cells, bool first, bool sum) {
  const std::uint64_t index_bytes = cells.size() * 16 + (sum ? 4 : 0);
  std::string data;
  std::string index;
  for (const std::string& cell : cells) {
    const std::uint64_t at = (first ? index_bytes : 0) + data.size();
    index +=
        cell == "none" ? number(UINT64_MAX) + number(UINT64_MAX) : number(at) + number(cell.size());
    if (cell != "none") data += cell;
  }
  if (sum) index = summed(index);
  return first ? index + data : data + index;
}

std::vector<std::string> four_cells(const std::function<std::string(const std::string&)>& coded) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < 24; at += 6) out.push_back(coded(kCells.substr(at, 6)));
  return out;
}

// Reads it at once and in steps. A changed byte or truncation must be an error, or not affect a
// checksum.
void expect_chain(const Array& array, const std::string& stored, bool always) {
  for (const std::size_t step : {0U, 1U, 5U, 24U})
    EXPECT_EQ(read_chunk(array, {0, 0}, stored, step), kCells) << step;
  for (std::size_t size = 0; size < stored.size(); ++size) {
    const Error error = catch_error([&] { read_chunk(array, {0, 0}, stored.substr(0, size)); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << size;
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::string bad = stored;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    for (const std::size_t step : {0U, 3U}) {
      try {
        const std::string read = read_chunk(array, {0, 0}, bad, step);
        EXPECT_TRUE(!always || read == kCells) << i;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::corrupt) << i << error.what();
      }
    }
  }
}

TEST(ZarrChain, CompressorsAndChecksumsInAnyOrder) {
  const std::string bytes = R"({"name":"bytes"})";
  expect_chain(chain(bytes + kGzip), deflate_stream(kCells), true);
  expect_chain(chain(bytes + kGzip + kCrcCodec), summed(deflate_stream(kCells)), true);
  expect_chain(chain(bytes + kCrcCodec + kGzip), deflate_stream(summed(kCells)), true);
  expect_chain(chain(bytes + kCrcCodec + kGzip + kCrcCodec), summed(deflate_stream(summed(kCells))),
               true);
  expect_chain(chain(bytes + kCrcCodec + kZstdCodec), zstd_frame(summed(kCells)), true);
  expect_chain(chain(bytes + kCrcCodec + kZstdCodec + kCrcCodec),
               summed(zstd_frame(summed(kCells))), true);
  // A valid frame around a wrong checksum.
  std::string wrong = summed(kCells);
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  for (const std::size_t step : {0U, 5U}) {
    const Error error = catch_error([&] {
      read_chunk(chain(bytes + kCrcCodec + kZstdCodec), {0, 0}, zstd_frame(wrong), step);
    });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_NE(error.sentence().find("checksum mismatch"), std::string::npos);
  }
}

TEST(ZarrChain, AWindowBeyondTheLimitIsALimitWhateverTheChecksum) {
  const Array array = chain(R"({"name":"bytes"})" + kZstdCodec + kCrcCodec);
  std::string stored = summed(zstd_frame(kCells, {3, 24, false, false}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(catch_error([&] { read_chunk(array, {0, 0}, stored, 5); }).code(), ErrorCode::limit);
    stored.back() = static_cast<char>(stored.back() ^ 1);
  }
}

TEST(ZarrChain, AnIndexMayStandInFrontAndHaveNoChecksum) {
  const auto raw = four_cells([](const std::string& cell) { return cell; });
  const auto packed = four_cells([](const std::string& cell) { return deflate_stream(cell); });
  const auto sums = four_cells([](const std::string& cell) { return summed(cell); });
  const auto below =
      four_cells([](const std::string& cell) { return deflate_stream(summed(cell)); });
  for (const bool first : {true, false}) {
    const std::string place = first ? R"(,"index_location":"start")" : R"(,"index_location":"end")";
    for (const bool sum : {true, false}) {
      const std::string index = kIndex + (sum ? kCrcCodec : "") + "]" + place;
      expect_chain(chain(shards_of("", index)), stored_shards(raw, first, sum), false);
      expect_chain(chain(shards_of(kGzip, index)), stored_shards(packed, first, sum), sum);
      expect_chain(chain(shards_of(kCrcCodec, index)), stored_shards(sums, first, sum), sum);
      expect_chain(chain(shards_of(kCrcCodec + kGzip, index)), stored_shards(below, first, sum),
                   sum);
    }
  }
  // A cell can't be in the index.
  std::string into = stored_shards(raw, true, false);
  into.replace(0, 8, number(63));
  const Array array = chain(shards_of("", kIndex + R"(],"index_location":"start")"));
  const Error error = catch_error([&] { read_chunk(array, {0, 0}, into); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.range(), (ByteRange{0, 16})) << "the entry in the index";
}

// The chunk is read in blocks of 1 MiB. The frame fills the first one.
TEST(ZarrChain, ABlockAfterTheFrameIsCorrupt) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::mt19937 random(7);
  std::string cells(kBlock, '\0');
  for (char& cell : cells) cell = static_cast<char>(random());
  cells.resize(2 * kBlock - zstd_frame(cells).size());
  const std::string frame = zstd_frame(cells);
  ASSERT_EQ(frame.size(), kBlock);
  const Array array = row_of(cells.size(), kZstdCodec);
  EXPECT_EQ(read_chunk(array, {0}, frame), cells);
  const auto longer = [&] { read_chunk(array, {0}, frame + "x"); };
  EXPECT_EQ(catch_error(longer).code(), ErrorCode::corrupt);
}

// A gzip frame whose content is complete before the end of the first block.
TEST(ZarrChain, AFrameMayEndInTheBlockAfterItsContent) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::mt19937 random(7);
  std::string cells(kBlock, '\0');
  for (char& cell : cells) cell = static_cast<char>(random());
  for (std::size_t after = 1; after <= 8; ++after) {
    const std::size_t size = kBlock - 200;
    const std::size_t longer = deflate_stream(cells.substr(0, size), true, 0).size() - size;
    const std::string content = cells.substr(0, kBlock - longer + after);
    const std::string stored = deflate_stream(content, true, 0);
    ASSERT_EQ(stored.size(), kBlock + after);
    EXPECT_EQ(read_chunk(row_of(content.size(), kGzip), {0}, stored), content);
  }
}

TEST(ZarrChain, ADamagedFrameWithItsChecksumIsTheFramesError) {
  constexpr std::size_t kMany = std::size_t{2} << 20;
  std::mt19937 random(7);
  std::string cells(kMany, '\0');
  for (char& cell : cells) cell = static_cast<char>(random());
  std::string frame = deflate_stream(cells, true, 0);
  frame[0] = 'x';
  const Array array = row_of(kMany, kGzip + kCrcCodec);
  const Error error = catch_error([&] { read_chunk(array, {0}, summed(frame)); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence().find("checksum mismatch"), std::string::npos) << error.sentence();
}

TEST(ZarrChain, BytesAfterSkippedOnesAreRead) {
  const auto raw = four_cells([](const std::string& cell) { return cell; });
  const auto packed = four_cells([](const std::string& cell) { return deflate_stream(cell); });
  const auto sums = four_cells([](const std::string& cell) { return summed(cell); });
  const std::string bytes = R"({"name":"bytes"})";
  const std::pair<Array, std::string> stored[] = {
      {chain(bytes), kCells},
      {chain(bytes + kCrcCodec), summed(kCells)},
      {chain(bytes + kZstdCodec), zstd_frame(kCells)},
      {chain(shards_of("", kIndex + "]")), stored_shards(raw, false, false)},
      {chain(shards_of(kGzip, kIndex + "]")), stored_shards(packed, false, false)},
      {chain(shards_of(kCrcCodec, kIndex + "]")), stored_shards(sums, false, false)}};
  for (const auto& [array, chunk] : stored) {
    const std::string whole = read_chunk(array, {0, 0}, chunk);
    for (std::uint64_t at = 0; at < whole.size(); ++at) {
      for (std::uint64_t skipped = 1; at + skipped <= whole.size(); ++skipped) {
        const PieceForm form = array.form();
        const MemorySource source(chunk);
        std::vector<std::byte> scratch(
            chunk_scratch_bytes(array, form, chunk.size(), PieceSteps::any));
        ChunkReader reader(array, form, {0, 0}, source, PieceSteps::any, scratch);
        std::string out(whole.size() - skipped, '?');
        const auto room = std::as_writable_bytes(std::span(out));
        reader.read(room.first(at));
        reader.skip(skipped);
        reader.read(room.subspan(at));
        EXPECT_EQ(out, whole.substr(0, at) + whole.substr(at + skipped))
            << chunk.size() << " stored: " << skipped << " after " << at;
      }
    }
  }
}

TEST(ZarrChain, InnerChunksAreCountedAsTheOuterOrderHasThem) {
  // After a `transpose` the chunk is 6 x 4 and its cells 3 x 2. The second one is below the first.
  const Array array = chain(R"({"name":"transpose","configuration":{"order":[1,0]}},)" +
                            shards_of("", kIndex + "]", "[3,2]"));
  const std::string stored = stored_shards({"ABCDEF", "GHIJKL", "abcdef", "ghijkl"}, false, false);
  for (const std::size_t step : {0U, 4U})
    EXPECT_EQ(read_chunk(array, {0, 0}, stored, step), kCells);
}

TEST(ZarrChain, InnerChunksThatMayBeMissingHaveTheFillValue) {
  const std::string stored = stored_shards({"ABCDEF", "none", "GHIJKL", "none"}, false, true);
  Array array = chain(shards_of("", kIndex + kCrcCodec + "]"), "122");
  EXPECT_EQ(catch_error([&] { read_chunk(array, {0, 0}, stored); }).code(), ErrorCode::corrupt);
  EXPECT_EQ(array.least_stored_bytes({0, 0}), 24U + 68U);
  array.may_lack = true;
  EXPECT_EQ(array.least_stored_bytes({0, 0}), 68U);
  for (const std::size_t step : {0U, 1U, 5U})
    EXPECT_EQ(read_chunk(array, {0, 0}, stored, step), "ABCDEFzzzzzzGHIJKLzzzzzz");
  std::string odd = stored_shards({"ABCDEF", "none", "GHIJKL", "none"}, false, false);
  array = chain(shards_of("", kIndex + "]"), "122");
  array.may_lack = true;
  odd.replace(odd.size() - 8, 8, number(6));  // only the offset of the last one is that of none
  EXPECT_EQ(
      catch_error([&] {
        read_chunk(array, {0, 0}, odd);
      }).sentence(),
      "inner chunk 3 has offset 18446744073709551615 and length 6; it needs length 6 within 12 "
      "bytes");
}

TEST(ZarrChain, ScratchDoesNotGrowWithTheChunk) {
  for (const std::string& codecs : {kGzip, kCrcCodec + kZstdCodec}) {
    const Array array = chain(R"({"name":"bytes"})" + codecs);
    const std::uint64_t huge = std::uint64_t{1} << 40;
    for (const PieceSteps steps : {PieceSteps::whole_cells, PieceSteps::any})
      EXPECT_LT(chunk_scratch_bytes(array, array.form(), huge, steps), 10U << 20);
  }
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
