#include "plan/options_json.h"

namespace hfshard {
namespace {

Json strings(const std::vector<std::string>& items) {
  Json out{Json::Array{}};
  for (const std::string& item : items) out.array().emplace_back(item);
  return out;
}

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const Json& item : json.as_array()) out.push_back(item.as_string());
  return out;
}

}  // namespace

Json options_json(const PlanOptions& options) {
  Json out;
  out["to"] = options.target;
  out["scheme"] = options.mapping.scheme;
  out["layers"] = options.mapping.stacked ? "stacked" : "separate";
  out["mesh"] = strings(options.meshes);
  out["chunk_bytes"] = options.chunk_bytes;
  out["step"] = options.step;
  out["checksum"] = options.checksum ? "crc32c" : "none";
  out["include"] = strings(options.mapping.include);
  out["exclude"] = strings(options.mapping.exclude);
  out["option"].object();
  for (const auto& [name, value] : options.mapping.options) out["option"][name] = value;
  out["rules"] = options.rules_text ? Json(*options.rules_text) : Json();
  return out;
}

PlanOptions options_from_json(const Json& json) {
  PlanOptions out;
  out.target = json.at("to").as_string();
  out.mapping.scheme = json.at("scheme").as_string();
  out.mapping.stacked = json.at("layers").as_string() == "stacked";
  out.meshes = strings_of(json.at("mesh"));
  out.chunk_bytes = json.at("chunk_bytes").as_uint();
  out.step = json.at("step").as_uint();
  out.checksum = json.at("checksum").as_string() == "crc32c";
  out.mapping.include = strings_of(json.at("include"));
  out.mapping.exclude = strings_of(json.at("exclude"));
  for (const auto& [name, value] : json.at("option").as_object()) {
    out.mapping.options[name] = value.as_string();
  }
  if (!json.at("rules").is_null()) {
    out.rules_text = json.at("rules").as_string();
    out.rules_name = "recorded rules";
  }
  return out;
}

}  // namespace hfshard
