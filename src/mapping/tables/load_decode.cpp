#include "mapping/tables/load_decode.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

DecodeKind read_kind(const JsonAt& at) {
  for (const DecodeKind kind : {DecodeKind::block, DecodeKind::tensor, DecodeKind::mx,
                                DecodeKind::int4, DecodeKind::int8, DecodeKind::packed}) {
    if (at.text() == to_string(kind)) return kind;
  }
  at.fail(fmt::format("a decoder can be block, tensor, mx, int4, int8 or packed, not {}",
                      quote(at.text())));
}

std::vector<DType> read_dtypes(const JsonAt& at) {
  std::vector<DType> out;
  for (const std::string& text : at.texts()) {
    const auto dtype = dtype_from_safetensors(text);
    if (!dtype) at.fail(fmt::format("{} isn't a dtype of safetensors", quote(text)));
    out.push_back(*dtype);
  }
  return out;
}

}  // namespace

DecodeRule read_decode(const JsonAt& at) {
  at.check_keys(Block::decode);
  DecodeRule out;
  out.pointer = at.pointer();
  out.kind = read_kind(at.at("kind"));
  out.scale = at.at("scale").text();
  if (at.has("when")) out.when = at.at("when").expr();
  if (at.has("usual")) out.usual = at.at("usual").expr();
  if (at.has("name")) out.name = at.at("name").text();
  if (at.has("dtype")) out.dtypes = read_dtypes(at.at("dtype"));
  if (!out.name && out.dtypes.empty()) at.fail("a decoder needs a name or a dtype");
  if (at.has("scale_dtype")) out.scale_dtypes = read_dtypes(at.at("scale_dtype"));
  if (at.has("zeros")) out.zeros = at.at("zeros").text();
  if (at.has("multiply") && at.has("divide")) at.fail("a factor must multiply or divide scales");
  for (const char* key : {"multiply", "divide"}) {
    if (!at.has(key)) continue;
    out.factor = at.at(key).text();
    out.divides = at.has("divide");
  }
  if (at.has("as")) out.as = at.at("as").text();
  if (at.has("rounds")) {
    out.rounds = at.at("rounds").text() == "scale";
    if (!out.rounds) at.at("rounds").fail("a decoder can round only to \"scale\"");
  }
  if (at.has("block")) {
    for (const JsonAt& extent : at.at("block").elements()) out.block.push_back(extent.expr());
    if (out.block.size() != 2) at.at("block").fail("a block needs rows and columns");
  }
  return out;
}

}  // namespace hfshard
