#include "run/check/manifest_decode.h"

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/text.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "unit/run/check/two_rules.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

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
}

}  // namespace
}  // namespace hfshard
