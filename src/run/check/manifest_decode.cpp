#include "run/check/manifest_decode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_shape.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::array kCodes = {Code::f8_e4m3, Code::f8_e5m2, Code::f4_e2m1,
                               Code::int4,    Code::int8,    Code::uint8};
constexpr std::array<std::pair<ZeroPoints, std::string_view>, 3> kZeroPoints{
    {{ZeroPoints::int8, "int8"},
     {ZeroPoints::packed4, "packed4"},
     {ZeroPoints::packed8, "packed8"}}};
constexpr std::array<std::pair<Factor, std::string_view>, 2> kFactors{
    {{Factor::multiplies, "multiplies"}, {Factor::divides, "divides"}}};

template <typename Value, std::size_t n>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, n>& names,
                         Value value) {
  return std::ranges::find(names, value, &std::pair<Value, std::string_view>::first)->second;
}

template <typename Value, std::size_t n>
Value value_of(const std::array<std::pair<Value, std::string_view>, n>& names,
               const std::string& name) {
  const auto found = std::ranges::find(names, name, &std::pair<Value, std::string_view>::second);
  if (found == names.end()) throw Error(ErrorCode::corrupt, "unknown decoder word " + name);
  return found->first;
}

Json json_list(const std::vector<std::uint32_t>& list) {
  Json out{Json::Array{}};
  for (const std::uint32_t tensor : list) out.array().emplace_back(std::uint64_t{tensor});
  return out;
}

std::vector<std::uint32_t> list_of(const Json& json, const Catalog& catalog) {
  std::vector<std::uint32_t> out;
  for (const Json& tensor : json.as_array()) {
    if (tensor.as_uint() >= catalog.tensors.size())
      throw Error(ErrorCode::corrupt, "a rule names scales that are not listed");
    out.push_back(static_cast<std::uint32_t>(tensor.as_uint()));
  }
  return out;
}

}  // namespace

Json json_decode(const Decode& decode, const Shape& shape) {
  const BlockScale& form = decode.form;
  Json out;
  out["code"] = to_string(form.code);
  out["shape"] = shape_json(shape);
  out["block"] = Json::Array{Json(form.row_block), Json(form.col_block)};
  out["scales"] = json_list(decode.scales);
  if (shape.rank() >= 2 && form.rows > shape[shape.rank() - 2]) out["rows"] = form.rows;
  if (form.zeros != ZeroPoints::none) {
    out["zero_points"] = name_of(kZeroPoints, form.zeros);
    out["zeros"] = json_list(decode.zeros);
  }
  if (form.factor != Factor::none) {
    out["factor"] = name_of(kFactors, form.factor);
    out["factors"] = json_list(decode.factors);
  }
  if (form.rounds_to_half) out["rounds"] = to_string(DType::f16);
  return out;
}

Decode read_decode(const Json& json, const Shape& shape, const Catalog& catalog) {
  Decode out;
  const std::string& code = json.at("code").as_string();
  const auto known = std::ranges::find_if(kCodes, [&](Code one) { return to_string(one) == code; });
  if (known == kCodes.end()) throw Error(ErrorCode::corrupt, "unknown code " + code);
  out.form.code = *known;
  out.scales = list_of(json.at("scales"), catalog);
  if (out.scales.empty() || shape.rank() < 2)
    throw Error(ErrorCode::corrupt, "a decoder without scales, or of no matrix");
  out.form.scale_dtype = catalog.tensors[out.scales.front()].dtype;
  out.form.rows = shape[shape.rank() - 2];
  out.form.cols = shape[shape.rank() - 1];
  if (const Json* rows = json.find("rows"))
    out.form.rows = std::max<std::uint64_t>(rows->as_uint(), 1);
  const Json::Array& block = json.at("block").as_array();
  if (block.size() != 2) throw Error(ErrorCode::corrupt, "a block has two numbers");
  out.form.row_block = std::max<std::uint64_t>(block[0].as_uint(), 1);
  out.form.col_block = std::max<std::uint64_t>(block[1].as_uint(), 1);
  if (const Json* zeros = json.find("zero_points")) {
    out.form.zeros = value_of(kZeroPoints, zeros->as_string());
    out.zeros = list_of(json.at("zeros"), catalog);
  }
  if (const Json* factor = json.find("factor")) {
    out.form.factor = value_of(kFactors, factor->as_string());
    out.factors = list_of(json.at("factors"), catalog);
  }
  const auto lacks = [&](const std::vector<std::uint32_t>& list) {
    return !list.empty() && list.size() != out.scales.size();
  };
  if (lacks(out.zeros) || lacks(out.factors))
    throw Error(ErrorCode::corrupt, "a decoder has other numbers of scales and of what is beside");
  if (const Json* rounds = json.find("rounds")) {
    out.form.rounds_to_half = rounds->as_string() == to_string(DType::f16);
    if (!out.form.rounds_to_half)
      throw Error(ErrorCode::corrupt, "a decoder rounds to another dtype than f16");
  }
  return out;
}

}  // namespace hfshard
