#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/orbax/zarr/array.h"
#include "support/catch_error.h"
#include "unit/format/orbax/read_chunk.h"

namespace hfshard::format::orbax::zarr {
namespace {

std::string text_with(const std::string& codecs, const std::string& chunk = "[2,3,4]") {
  return R"({"chunk_grid":{"configuration":{"chunk_shape":)" + chunk +
         R"(},"name":"regular"},"chunk_key_encoding":{"name":"default"},"codecs":[)" + codecs +
         R"(],"data_type":"uint8","fill_value":0,"node_type":"array","shape":[2,3,4],)"
         R"("zarr_format":3})";
}

std::string transpose(const std::string& order) {
  return R"({"configuration":{"order":)" + order + R"(},"name":"transpose"})";
}

const std::string kBytes = R"({"name":"bytes"})";

Array array_with(const std::string& codecs) { return parse_array(text_with(codecs), "f", "w"); }

TEST(ZarrTranspose, AnOrderThatIsNoPermutationIsCorrupt) {
  const auto code = [](const std::string& codecs) {
    return catch_error([&] { array_with(codecs); }).code();
  };
  for (const char* order : {"[]", "[0,1]", "[0,0,1]", "[1,1,1]", "[0,1,3]", "[0,1,2,2]",
                            "[0,1,2,0]", "[0,-1,2]", "[0.0,1,2]"}) {
    EXPECT_EQ(code(transpose(order) + "," + kBytes), ErrorCode::corrupt) << order;
  }
  EXPECT_EQ(code(transpose("\"F\"") + "," + kBytes), ErrorCode::unsupported);
  EXPECT_EQ(code(transpose("[0,2,1]")), ErrorCode::corrupt);
  const std::string sharding =
      R"({"configuration":{"chunk_shape":[1,3,4],"codecs":[)" + kBytes +
      R"(],"index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},)"
      R"({"name":"crc32c"}]},"name":"sharding_indexed"})";
  EXPECT_TRUE(array_with(sharding).sharded);
  EXPECT_EQ(code(transpose("[0,2,1]") + "," + sharding), ErrorCode::unsupported);
}

TEST(ZarrCodec, AChunkOfAnotherLengthThanItsFormIsCorrupt) {
  const Array plain = make_array(DType::u8, {4}, {4}, {4}, {.checksum = false});
  EXPECT_EQ(read_chunk(plain, {0}, "abcd"), "abcd");
  for (const char* stored : {"", "abc", "abcde"}) {
    EXPECT_EQ(catch_error([&] { read_chunk(plain, {0}, stored); }).code(), ErrorCode::corrupt)
        << stored;
  }
  const Array checked = make_array(DType::u8, {4}, {4}, {4}, {});
  for (const char* stored : {"", "abc"}) {
    EXPECT_EQ(catch_error([&] { read_chunk(checked, {0}, stored); }).code(), ErrorCode::corrupt)
        << stored;
  }
  const Array shard = make_array(DType::u8, {4}, {4}, {2}, {});
  const Error error = catch_error([&] { read_chunk(shard, {0}, std::string(35, 'x')); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_FALSE(error.range()) << "no index was read";
}

TEST(ZarrArray, ALinkedLeafIsStoredAsItsSourceHasIt) {
  Grid grid;
  grid.shard = grid.chunk = grid.inner = {4, 4};
  EXPECT_TRUE(make_array(DType::u8, {8, 4}, grid, {}).crc32c);
  EXPECT_EQ(make_array(DType::u8, {8, 4}, grid, {.zstd_level = 3}).zstd, 3);
  grid.linked = true;
  grid.order = {1, 0};
  const Array linked = make_array(DType::u8, {8, 4}, grid, {.checksum = true, .zstd_level = 3});
  EXPECT_FALSE(linked.crc32c);
  EXPECT_FALSE(linked.zstd);
  EXPECT_EQ(linked.order, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(parse_array(write_array(linked), "f", "w"), linked);
}

// Source: google/tensorstore tensorstore/internal/compression/zstd_compressor.h.
TEST(ZarrArray, ZstdWithoutALevelHasTensorStoresDefault) {
  EXPECT_EQ(array_with(kBytes + R"(,{"name":"zstd"})").zstd, 1);
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
