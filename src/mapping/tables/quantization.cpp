#include "mapping/tables/quantization.h"

#include <algorithm>

#include "base/text.h"
#include "mapping/tables/expand.h"
#include "mapping/tables/load_decode.h"

#include "hfshard/mapping.h"

namespace hfshard {
namespace {

Quantization read() {
  const JsonAt at = JsonAt(common_mappings(), "mappings/common.json#").at("quantization");
  at.check_keys(Block::quantization);
  Quantization out;
  for (const JsonAt& decode : at.at("decode").elements())
    out.decodes.push_back(read_decode(decode));
  out.methods = at.at("methods").texts();
  for (const JsonAt& drop : at.at("drop").elements()) {
    for (const std::string& glob : drop.at(std::size_t{0}).texts())
      out.beside.push_back({glob, drop.at(std::size_t{1}).text()});
  }
  for (const JsonAt& method : at.at("undecoded").elements()) {
    method.check_keys(Block::undecoded);
    const auto texts = [&](const char* key) {
      return method.has(key) ? method.at(key).texts() : std::vector<std::string>{};
    };
    out.undecoded.push_back({method.at("what").text(), method.at("way").text(), texts("method"),
                             texts("format"), texts("names")});
  }
  return out;
}

}  // namespace

const BesideCodes* Quantization::beside_codes(std::string_view tensor) const {
  const auto found = std::ranges::find_if(
      beside, [&](const BesideCodes& item) { return glob_match(item.glob, tensor); });
  return found == beside.end() ? nullptr : &*found;
}

const UndecodedMethod* Quantization::undecoded_name(std::string_view tensor) const {
  const auto found = std::ranges::find_if(undecoded, [&](const UndecodedMethod& method) {
    return std::ranges::any_of(method.names,
                               [&](const std::string& glob) { return glob_match(glob, tensor); });
  });
  return found == undecoded.end() ? nullptr : &*found;
}

const Quantization& quantization() {
  static const Quantization kAll = read();
  return kAll;
}

std::string stored_as(std::string_view value, const std::function<bool(std::string_view)>& has) {
  for (const DecodeRule& rule : quantization().decodes) {
    std::string stored = rule.stored_name(value);
    if (!stored.empty() && has(stored)) return stored;
  }
  return {};
}

const MappingTable& table_of_codes() {
  static const MappingTable kTable = [] {
    MappingTable out;
    out.family = kNoFamily;
    return out;
  }();
  return kTable;
}

}  // namespace hfshard
