#include "mapping/tables/loader_models.h"

#include <map>

#include "mapping/tables/family.h"
#include "mapping/tables/load_reader.h"

namespace hfshard {
namespace {

using AllFacts = std::map<std::string, LoaderFacts, std::less<>>;

constexpr std::string_view kPath = "mappings/loaders.json";

LoaderFacts read_facts(const JsonAt& at) {
  LoaderFacts out;
  if (at.has("defaults")) out.defaults = &at.at("defaults").json();
  if (at.has("whole_numbers")) out.whole_numbers = at.at("whole_numbers").texts();
  const JsonAt models = at.at("models");
  for (const std::string& name : models.keys()) {
    const JsonAt model = models.at(name);
    // A text refers to the model with that name.
    const bool same = model.json().is_string();
    out.models.push_back({name, same ? &models.at(model.text()).json() : &model.json()});
  }
  return out;
}

AllFacts read_all() {
  static const Json kLoaders = parse_json(embedded_loaders(), kPath);
  AllFacts out;
  const JsonAt root(kLoaders, std::string(kPath) + "#");
  for (const std::string& scheme : root.keys()) out.emplace(scheme, read_facts(root.at(scheme)));
  return out;
}

}  // namespace

const Json* LoaderFacts::value(const Json* model, std::string_view setting) const {
  const Json* own = model == nullptr ? nullptr : model->find(setting);
  return own != nullptr || defaults == nullptr ? own : defaults->find(setting);
}

const LoaderFacts& loader_facts(std::string_view scheme) {
  static const AllFacts kAll = read_all();
  static const LoaderFacts kNone;
  const auto found = kAll.find(scheme);
  return found == kAll.end() ? kNone : found->second;
}

}  // namespace hfshard
