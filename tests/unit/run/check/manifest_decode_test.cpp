#include "run/check/manifest_decode.h"

#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"

namespace hfshard {
namespace {

// Returns the error for a decoder of two scales with one member replaced.
Error refused_decode(const std::string& key, const Json& value, const Shape& shape = {14, 32}) {
  Catalog catalog;
  catalog.tensors.resize(2);
  Json json = Json::Object{{"code", "f8_e4m3"},
                           {"scales", Json::Array{Json(0), Json(1)}},
                           {"block", Json::Array{Json(7), Json(8)}}};
  EXPECT_EQ(read_decode(json, {14, 32}, catalog).form.col_block, 8U);
  json[key] = value;
  return catch_error([&] { read_decode(json, shape, catalog); });
}

TEST(ReadDecode, RefusesWhatNoRunWrites) {
  for (const Error& error :
       {refused_decode("code", "f9"), refused_decode("scales", Json::Array{Json(2)}),
        refused_decode("scales", Json::Array{}), refused_decode("block", Json::Array{Json(7)}),
        refused_decode("code", "f8_e4m3", {32})})
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.format();
  EXPECT_EQ(refused_decode("code", "f9").sentence(), "unknown code f9");
  EXPECT_EQ(refused_decode("scales", Json::Array{Json(2)}).sentence(),
            "a rule names scales that are not listed");
  EXPECT_EQ(refused_decode("block", Json::Array{Json(7)}).sentence(), "a block has two numbers");
}

TEST(ReadDecode, SaysWhatIsWrong) {
  EXPECT_EQ(refused_decode("scales", Json::Array{}).sentence(),
            "a decoder without scales, or of no matrix");
  EXPECT_EQ(refused_decode("code", "f8_e4m3", {32}).sentence(),
            "a decoder without scales, or of no matrix");
  EXPECT_EQ(refused_decode("zero_points", "int9").sentence(), "unknown decoder word int9");
  EXPECT_EQ(refused_decode("factor", "adds").sentence(), "unknown decoder word adds");
  EXPECT_EQ(refused_decode("rounds", "bf16").sentence(),
            "a decoder rounds to another dtype than f16");
}

// Verify never divides by a size that a file says.
TEST(ReadDecode, TakesEverySizeAsAtLeastOne) {
  Catalog catalog;
  catalog.tensors.resize(2);
  catalog.tensors[1].dtype = DType::f16;
  Json json = Json::Object{{"code", "int4"},
                           {"scales", Json::Array{Json(1)}},
                           {"block", Json::Array{Json(0), Json(0)}},
                           {"rows", 0}};
  const Decode read = read_decode(json, {5, 14, 32}, catalog);
  EXPECT_EQ(read.form, (BlockScale{Code::int4, DType::f16, 1, 32, 1, 1}));
  json.object().erase("rows");
  EXPECT_EQ(read_decode(json, {5, 14, 32}, catalog).form.rows, 14U);
}

TEST(ReadDecode, ReadsEveryWordThatItWrites) {
  Catalog catalog;
  catalog.tensors.resize(6);
  Decode decode;
  decode.form = {Code::f8_e5m2, catalog.tensors[0].dtype, 14, 32, 7, 8};
  decode.scales = {0, 1};
  for (const Code code :
       {Code::f8_e4m3, Code::f8_e5m2, Code::f4_e2m1, Code::int4, Code::int8, Code::uint8}) {
    decode.form.code = code;
    EXPECT_EQ(read_decode(json_decode(decode, {14, 32}), {14, 32}, catalog).form.code, code);
  }
  decode.zeros = {2, 3};
  decode.factors = {5, 4};
  for (const ZeroPoints zeros : {ZeroPoints::int8, ZeroPoints::packed4, ZeroPoints::packed8}) {
    for (const Factor factor : {Factor::multiplies, Factor::divides}) {
      decode.form.zeros = zeros;
      decode.form.factor = factor;
      const Decode back = read_decode(json_decode(decode, {14, 32}), {14, 32}, catalog);
      EXPECT_EQ(back.form, decode.form);
      EXPECT_EQ(back.zeros, decode.zeros);
      EXPECT_EQ(back.factors, decode.factors);
    }
  }
  EXPECT_EQ(json_decode(decode, {14, 32}).find("rounds"), nullptr);
}

// None of them, or one for each scale.
TEST(ReadDecode, RefusesOtherNumbersOfZeroPointsOrFactorsThanOfScales) {
  Catalog catalog;
  catalog.tensors.resize(6);
  Decode decode;
  decode.form = {Code::int8, catalog.tensors[0].dtype, 14, 32, 7, 8};
  decode.form.zeros = ZeroPoints::int8;
  decode.form.factor = Factor::divides;
  decode.scales = {0, 1};
  decode.zeros = {2, 3};
  decode.factors = {5, 4};
  const Json good = json_decode(decode, {14, 32});
  for (const char* list : {"zeros", "factors"}) {
    for (const Json::Array& other :
         {Json::Array{Json(2)}, Json::Array{Json(2), Json(3), Json(4)}}) {
      Json json = good;
      json[list] = other;
      const Error error = catch_error([&] { read_decode(json, {14, 32}, catalog); });
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << list << " " << other.size();
      EXPECT_EQ(error.sentence(), "a decoder has other numbers of scales and of what is beside");
    }
    Json none = good;
    none[list] = Json::Array{};
    EXPECT_NO_THROW(read_decode(none, {14, 32}, catalog)) << list;
  }
}

TEST(JsonDecode, HasTheRowsOfAMatrixThatTheRuleCutOff) {
  Decode decode;
  decode.form = {Code::f8_e4m3, DType::f32, 14, 32, 7, 8};
  EXPECT_EQ(json_decode(decode, {14, 32}).find("rows"), nullptr);
  decode.form.rows = 20;
  EXPECT_EQ(json_decode(decode, {14, 32}).at("rows").as_uint(), 20U);
  EXPECT_EQ(json_decode(decode, {32}).find("rows"), nullptr);
}

}  // namespace
}  // namespace hfshard
