#include "mapping/scheme_defaults.h"

#include "base/json.h"
#include "mapping/expand.h"

namespace hfshard {
namespace {

constexpr std::string_view kMain = "maxtext";

const Json* find_scheme(std::string_view name) {
  return common_mappings().at("schemes").find(name);
}

const Json& scheme_or_main(std::string_view name) {
  const Json* found = find_scheme(name);
  return found != nullptr ? *found : *find_scheme(kMain);
}

}  // namespace

std::string default_axis_rules(std::string_view scheme) {
  return dump_json(scheme_or_main(scheme).at("axis_rules"));
}

TreeExtras tree_extras(std::string_view scheme) {
  const Json* found = find_scheme(scheme);
  if (found == nullptr) return {};
  const Json& loader = found->at("loader");
  return {loader.at("step").as_string(), loader.at("empty").as_string()};
}

LoaderOptions loader_options(std::string_view scheme) {
  const Json* found = find_scheme(scheme);
  if (found == nullptr) return {};
  const Json& loader = found->at("loader");
  return {loader.at("path").as_string(), loader.at("stacked").as_string(),
          loader.at("model").as_string(), loader.at("override").as_string(),
          loader.at("layers").as_string()};
}

std::string stacked_flag(std::string_view scheme) {
  return scheme_or_main(scheme).at("loader").at("stacked").as_string();
}

}  // namespace hfshard
