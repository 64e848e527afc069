#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/parse.h"
#include "support/catch_error.h"
#include "support/deflate_streams.h"
#include "support/json_rejections.h"
#include "support/zstd_frames.h"
#include "unit/format/orbax/read_chunk.h"

namespace hfshard::format::orbax::zarr {
namespace {

// Source: the output of google/tensorstore 0.1.86.
const std::string kV2 =
    R"({"chunks":[4,3],"compressor":{"id":"zstd","level":1},"dimension_separator":".",)"
    R"("dtype":"<i4","fill_value":null,"filters":null,"order":"C","shape":[9,7],"zarr_format":2})";
const std::string kNoCompressor = R"("compressor":null)";

std::string v2_with(const std::string& from, const std::string& to) {
  std::string out = kV2;
  const std::size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return out.replace(at, from.size(), to);
}

Array v2_array(const std::string& text) { return parse_array_v2(text, "w/.zarray", "w"); }

TEST(ZarrV2, WhatTensorStoreWritesIsUnderstood) {
  const Array array = v2_array(kV2);
  EXPECT_EQ(array.dtype, DType::i32);
  EXPECT_EQ(array.shape, (Shape{9, 7}));
  EXPECT_EQ(array.chunk, (Shape{4, 3}));
  EXPECT_EQ(array.inner, array.chunk);
  EXPECT_EQ(array.compressor, Compressor::zstd);
  EXPECT_EQ(array.keys, (KeyEncoding{false, '.'}));
  EXPECT_FALSE(array.crc32c || array.sharded || !array.order.empty());
  EXPECT_EQ(chunk_key(array.keys, {2, 1}), "2.1");
  const Array slashes =
      v2_array(v2_with(R"("dimension_separator":".")", R"("dimension_separator":"/")"));
  EXPECT_EQ(chunk_key(slashes.keys, {2, 1}), "2/1");
  EXPECT_EQ(v2_array(v2_with(R"("dimension_separator":".",)", "")).keys.separator, '.');
  EXPECT_EQ(v2_array(v2_with(R"("order":"C")", R"("order":"F")")).order,
            (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(v2_array(v2_with(R"("filters":null)", R"("filters":[])")), array);
  EXPECT_EQ(v2_array(v2_with(R"("chunks")", R"("more":{"a":1},"chunks")")), array);
  const Array scalar =
      v2_array(R"({"chunks":[],"compressor":null,"dtype":"<f8","fill_value":null,"filters":null,)"
               R"("order":"F","shape":[],"zarr_format":2})");
  EXPECT_EQ(chunk_key(scalar.keys, {}), "0");
  EXPECT_EQ(scalar.compressor, Compressor::none);
}

TEST(ZarrV2, EveryDTypeOfNumPyAndItsLackIsKnown) {
  const auto dtype = [](const std::string& name) {
    return v2_array(v2_with(R"("<i4")", '"' + name + '"')).dtype;
  };
  const std::vector<std::pair<const char*, DType>> names{{"|b1", DType::boolean},
                                                         {"|i1", DType::i8},
                                                         {"|u1", DType::u8},
                                                         {"<i2", DType::i16},
                                                         {"<u2", DType::u16},
                                                         {"<f2", DType::f16},
                                                         {"<i4", DType::i32},
                                                         {"<u4", DType::u32},
                                                         {"<f4", DType::f32},
                                                         {"<i8", DType::i64},
                                                         {"<u8", DType::u64},
                                                         {"<f8", DType::f64},
                                                         {"<c8", DType::c64},
                                                         {"bfloat16", DType::bf16},
                                                         {"float8_e5m2", DType::f8_e5m2},
                                                         {"float8_e4m3fn", DType::f8_e4m3},
                                                         {"float8_e8m0fnu", DType::f8_e8m0}};
  for (const auto& [name, wanted] : names) EXPECT_EQ(dtype(name), wanted) << name;
  for (const char* name : {">f4", ">i2", "|f4", "<f3", "<c16", "<M8", "float32", "int4", "uint8",
                           "float8_x", "", "<", "<V2", "|S4", "float4_e2m1fn", "int2"}) {
    const Error error = catch_error([&] { dtype(name); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
    EXPECT_NE(error.sentence().find('"' + std::string(name) + '"'), std::string::npos) << name;
  }
  EXPECT_NE(catch_error([&] { dtype(">f4"); }).sentence().find("big-endian"), std::string::npos);
}

TEST(ZarrV2, WhatIsNotUnderstoodIsRefusedWithFileAndLeaf) {
  const auto u = ErrorCode::unsupported;
  const auto c = ErrorCode::corrupt;
  const std::string compressor = R"("compressor":{"id":"zstd","level":1})";
  const std::vector<std::pair<std::string, ErrorCode>> cases{
      {v2_with(compressor, R"("compressor":{"id":"blosc"})"), u},
      {v2_with(compressor, R"("compressor":{"id":"bz2"})"), u},
      {v2_with(compressor, R"("compressor":{})"), c},
      {v2_with(compressor + ",", ""), c},
      {v2_with(R"("filters":null)", R"("filters":[{"id":"delta"}])"), u},
      {v2_with(R"("filters":null,)", ""), c},
      {v2_with(R"("<i4")", R"([["a","<i4"]])"), u},
      {v2_with(R"("order":"C")", R"("order":"K")"), c},
      {v2_with(R"("dimension_separator":".")", R"("dimension_separator":"-")"), c},
      {v2_with(R"("zarr_format":2)", R"("zarr_format":3)"), u},
      {v2_with("[4,3]", "[4,0]"), c},
      {v2_with("[4,3]", "[4]"), c},
      {v2_with("[9,7]", "[-9,7]"), c},
      {v2_with("[9,7]", "[1,2,3,4,5,6,7,8,9]"), u},
      {v2_with("[4,3]", "[4611686018427387904,3]"), c},
      {v2_with(R"("fill_value":null,)", ""), c},
      {"[]", c},
  };
  for (const auto& [text, code] : cases) {
    const Error error = catch_error([&] { v2_array(text); });
    EXPECT_EQ(error.code(), code) << text << error.what();
    EXPECT_EQ(error.file(), "w/.zarray") << text;
    EXPECT_EQ(error.tensor(), "w") << text;
  }
  for (std::size_t size = 0; size < kV2.size(); ++size)
    EXPECT_EQ(catch_error([&] { v2_array(kV2.substr(0, size)); }).code(), c) << size;
  for (const auto& [what, text] : json_rejections())
    EXPECT_EQ(catch_error([&] { v2_array(text); }).code(), c) << what;
}

TEST(ZarrV2, ChunksOfEveryCompressorComeBack) {
  const std::string content = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv";
  const auto array = [](const std::string& compressor) {
    return v2_array(v2_with(R"({"id":"zstd","level":1})", compressor));
  };
  for (const std::size_t step : {0U, 1U, 7U}) {
    EXPECT_EQ(read_chunk(array("null"), {0, 0}, content, step), content);
    EXPECT_EQ(read_chunk(v2_array(kV2), {0, 0}, zstd_frame(content), step), content);
    for (const bool gzip : {true, false}) {
      const Array packed = array(gzip ? R"({"id":"gzip","level":5})" : R"({"id":"zlib"})");
      const std::string stored = deflate_stream(content, gzip);
      EXPECT_EQ(read_chunk(packed, {0, 0}, stored, step), content);
      for (const std::string& bad :
           {stored + "x", stored.substr(0, stored.size() - 1), deflate_stream(content + "x", gzip),
            deflate_stream(content.substr(1), gzip), deflate_stream(content, !gzip), content,
            std::string()}) {
        EXPECT_EQ(catch_error([&] {
                    read_chunk(packed, {0, 0}, bad, step);
                  }).code(),
                  ErrorCode::corrupt);
      }
    }
  }
}

TEST(ZarrFill, ElementsAreAsTheTextStatesThem) {
  const auto bytes = [](const std::string& text, DType dtype) -> std::string {
    const auto fill = parse_fill(parse_json(text, "f"), dtype);
    if (!fill) return "unknown";
    std::string out;
    for (std::size_t i = 0; i < size_bits(dtype) / 8; ++i)
      out += std::to_string(std::to_integer<int>((*fill)[i])) + " ";
    return out;
  };
  EXPECT_EQ(bytes("null", DType::f32), "0 0 0 0 ");
  EXPECT_EQ(bytes("1.5", DType::f32), "0 0 192 63 ");
  EXPECT_EQ(bytes("1.5", DType::bf16), "192 63 ");
  EXPECT_EQ(bytes("1.5", DType::f16), "0 62 ");
  EXPECT_EQ(bytes("1", DType::f64), "0 0 0 0 0 0 240 63 ");
  EXPECT_EQ(bytes(R"("NaN")", DType::bf16), "192 127 ");
  EXPECT_EQ(bytes(R"("Infinity")", DType::f32), "0 0 128 127 ");
  EXPECT_EQ(bytes(R"("-Infinity")", DType::f32), "0 0 128 255 ");
  EXPECT_EQ(bytes(R"("0x7fc1")", DType::bf16), "193 127 ");
  EXPECT_EQ(bytes(R"("0x7f")", DType::f8_e4m3), "127 ");
  EXPECT_EQ(bytes("0.0", DType::f8_e4m3), "0 ");
  EXPECT_EQ(bytes("-2", DType::i16), "254 255 ");
  EXPECT_EQ(bytes("18446744073709551615", DType::u64), "255 255 255 255 255 255 255 255 ");
  EXPECT_EQ(bytes("true", DType::boolean), "1 ");
  EXPECT_EQ(bytes("[1.5,0]", DType::c64), "0 0 192 63 0 0 0 0 ");
  for (const auto& [text, dtype] :
       std::vector<std::pair<const char*, DType>>{{"1.0", DType::f8_e4m3},
                                                  {R"("x")", DType::f32},
                                                  {R"("0x7fc")", DType::bf16},
                                                  {R"("0x7fcg")", DType::bf16},
                                                  {"1.5", DType::i32},
                                                  {"1", DType::boolean},
                                                  {"[1]", DType::c64},
                                                  {"1", DType::c64},
                                                  {R"(["x",0])", DType::c64},
                                                  {R"([0,"x"])", DType::c64},
                                                  {"{}", DType::f32},
                                                  {"{}", DType::u8}}) {
    EXPECT_EQ(bytes(text, dtype), "unknown") << text;
  }
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
