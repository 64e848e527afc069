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
