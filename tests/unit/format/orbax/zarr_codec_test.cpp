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
  EXPECT_EQ(code(transpose("\"A\"") + "," + kBytes), ErrorCode::corrupt);
  EXPECT_EQ(code(transpose("[0,2,1]")), ErrorCode::corrupt);
  const std::string sharding =
      R"({"configuration":{"chunk_shape":[1,3,4],"codecs":[)" + kBytes +
      R"(],"index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},)"
      R"({"name":"crc32c"}]},"name":"sharding_indexed"})";
  EXPECT_TRUE(array_with(sharding).sharded);
  const std::string too_deep =
      std::string(sharding).replace(sharding.find(kBytes), kBytes.size(), sharding);
  EXPECT_EQ(code(too_deep), ErrorCode::unsupported);
}

TEST(ZarrTranspose, AnOrderInWordsIsThatOfTheLanguage) {
  using Order = std::vector<std::uint8_t>;
  EXPECT_EQ(array_with(transpose("\"C\"") + "," + kBytes).order, Order{});
  EXPECT_EQ(array_with(transpose("\"F\"") + "," + kBytes).order, (Order{2, 1, 0}));
}

TEST(ZarrCodec, TheOrderOfSingleBytesIsThatOfTheirElements) {
  const auto endian = [](const std::string& order) {
    return array_with(R"({"name":"bytes","configuration":{"endian":")" + order + R"("}})");
  };
  EXPECT_EQ(endian("big"), endian("little"));
  EXPECT_EQ(catch_error([&] { endian("middle"); }).sentence(),
            "byte order \"middle\" isn't supported");
}

TEST(ZarrCodec, AListWithoutBytesIsCorrupt) {
  const std::string cells =
      R"({"configuration":{"chunk_shape":[1,3,4],"codecs":[],"index_codecs":[{"name":"bytes",)"
      R"("configuration":{"endian":"little"}}]},"name":"sharding_indexed"})";
  for (const std::string& codecs : {std::string(), transpose("[0,2,1]"), cells}) {
    EXPECT_EQ(catch_error([&] { array_with(codecs); }).sentence(),
              "a list of codecs without \"bytes\"")
        << codecs;
  }
}

// A codec's axes are those of its input, after all codecs before it. Source: the zarr3
// specification, transpose; tests/interop/orbax_variants.py has TensorStore's result for the same
// codecs.
TEST(ZarrTranspose, OrdersAddUpAndInnerChunksAreCountedInTheirs) {
  using Order = std::vector<std::uint8_t>;
  const auto shards = [](const std::string& chunk, const std::string& codecs) {
    return R"({"configuration":{"chunk_shape":)" + chunk + R"(,"codecs":[)" + codecs +
           R"(],"index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"}]},)" +
           R"("name":"sharding_indexed"})";
  };
  const std::string turn = transpose("[2,0,1]");
  EXPECT_EQ(array_with(turn + "," + turn + "," + kBytes).order, (Order{1, 2, 0}));
  EXPECT_EQ(array_with(turn + "," + turn + "," + turn + "," + kBytes).order, Order{});
  const Array outside = array_with(turn + "," + shards("[2,1,3]", kBytes));
  EXPECT_EQ(outside.inner, (Shape{1, 3, 2}));
  EXPECT_EQ(outside.order, (Order{2, 0, 1}));
  EXPECT_EQ(outside.index_order, (Order{2, 0, 1}));
  EXPECT_FALSE(outside.index_crc32c);
  const Array inside = array_with(shards("[2,1,4]", turn + "," + kBytes));
  EXPECT_EQ(inside.inner, (Shape{2, 1, 4}));
  EXPECT_EQ(inside.order, (Order{2, 0, 1}));
  EXPECT_EQ(inside.index_order, Order{});
  const Array both = array_with(turn + "," + shards("[4,2,3]", turn + "," + kBytes));
  EXPECT_EQ(both.order, (Order{1, 2, 0}));
  EXPECT_EQ(both.index_order, (Order{2, 0, 1}));
  EXPECT_EQ(catch_error([&] { array_with(turn + "," + shards("[2,3,4]", kBytes)); }).code(),
            ErrorCode::corrupt);
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
  EXPECT_EQ(make_array(DType::u8, {8, 4}, grid, {.zstd_level = 3}).level, 3);
  grid.linked = true;
  grid.order = {1, 0};
  const Array linked = make_array(DType::u8, {8, 4}, grid, {.checksum = true, .zstd_level = 3});
  EXPECT_FALSE(linked.crc32c);
  EXPECT_EQ(linked.compressor, Compressor::none);
  EXPECT_EQ(linked.order, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(parse_array(write_array(linked), "f", "w"), linked);
}

// Source: google/tensorstore tensorstore/internal/compression/zstd_compressor.h.
TEST(ZarrArray, ZstdWithoutALevelHasTensorStoresDefault) {
  const Array array = array_with(kBytes + R"(,{"name":"zstd"})");
  EXPECT_EQ(array.compressor, Compressor::zstd);
  EXPECT_EQ(array.level, 1);
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
