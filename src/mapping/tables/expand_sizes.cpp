#include "mapping/tables/expand_sizes.h"

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Sets a member at a dotted path: `text_config.hidden_size`.
void set_member(Json& root, const std::string& path, const Json& value) {
  Json* at = &root;
  const std::vector<std::string> keys = split(path, '.');
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = &(*at)[keys[i]];
  (*at)[keys.back()] = value;
}

void add_members(Json& root, const JsonAt& more) {
  for (const std::string& path : more.keys()) set_member(root, path, more.at(path).json());
}

// Reads one model: values for the keys, possibly followed by objects with its own facts.
Json model_of(const JsonAt& at, const JsonAt& sizes, const std::vector<std::string>& keys) {
  Json out{Json::Object{}};
  if (sizes.has("all")) add_members(out, sizes.at("all"));
  if (at.json().is_object()) {
    add_members(out, at);
    return out;
  }
  if (at.size() != keys.size() && at.size() != keys.size() + 1) {
    at.fail(fmt::format("the number of values is {}, but that of the keys is {}", at.size(),
                        keys.size()));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) set_member(out, keys[i], at.at(i).json());
  if (at.size() > keys.size()) add_members(out, at.at(keys.size()));
  return out;
}

}  // namespace

Json expand_sizes(const JsonAt& at) {
  if (!at.has("models")) return at.json();
  at.check_keys(Block::sizes);
  const std::vector<std::string> keys =
      at.has("keys") ? at.at("keys").texts() : std::vector<std::string>{};
  const JsonAt models = at.at("models");
  Json out{Json::Object{}};
  for (const std::string& name : models.keys()) {
    JsonAt model = models.at(name);
    if (model.json().is_string()) {  // the same facts as another name
      const JsonAt other = models.at(model.text());
      if (other.json().is_string()) model.fail("this names a model that only names another one");
      model = other;
    }
    out[name] = model_of(model, at, keys);
  }
  return out;
}

}  // namespace hfshard
