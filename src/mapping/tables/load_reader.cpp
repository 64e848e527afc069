#include "mapping/tables/load_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Applies RFC 6901 escapes.
std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string JsonAt::pointer() const {
  return at_.used_by.empty() ? at_.pointer : at_.used_by + " -> " + at_.pointer;
}

JsonAt JsonAt::child(const Json& json, std::string_view step) const {
  JsonAt out = *this;
  out.json_ = &json;
  out.path_.append("/").append(step);
  if (origins_ != nullptr) {
    const auto found = origins_->find(out.path_);
    if (found != origins_->end()) {
      out.at_ = found->second;
      return out;
    }
  }
  if (at_.exact) out.at_.pointer.append("/").append(step);
  return out;
}

void JsonAt::fail(const std::string& sentence) const {
  throw Error(ErrorCode::bad_input, sentence).by_rule(pointer());
}

void JsonAt::check_keys(Block block, bool open) const {
  const auto known = block_keys(block);
  std::vector<std::string> names;
  for (const BlockKey& key : known) names.emplace_back(key.name);
  for (const std::string& key : keys()) {
    if (open || std::ranges::find(names, key) != names.end()) continue;
    Error error(ErrorCode::bad_input, fmt::format("unknown key {}", quote(key)));
    const std::vector<std::string> near = near_names(key, names, 1);
    if (!near.empty()) error.hint(fmt::format("did you mean {}", quote(near[0])));
    throw error.by_rule(pointer());
  }
  for (const BlockKey& key : known) {
    if (key.required && !has(key.name)) fail(fmt::format("key {} is missing", quote(key.name)));
  }
}

JsonAt JsonAt::at(std::string_view key) const {
  const Json* found = json_->find(key);
  if (found == nullptr) fail(fmt::format("key {} is missing", quote(key)));
  return child(*found, escaped(key));
}

JsonAt JsonAt::at(std::size_t index) const {
  if (index >= size()) fail(fmt::format("element {} is missing; there are {}", index, size()));
  return child(json_->as_array()[index], std::to_string(index));
}

std::size_t JsonAt::size() const {
  if (!json_->is_array()) fail("this must be an array");
  return json_->as_array().size();
}

std::vector<JsonAt> JsonAt::elements() const {
  std::vector<JsonAt> out;
  for (std::size_t i = 0; i < size(); ++i) out.push_back(at(i));
  return out;
}

std::vector<std::string> JsonAt::keys() const {
  if (!json_->is_object()) fail("this must be an object");
  std::vector<std::string> out;
  for (const auto& [key, value] : json_->as_object()) out.push_back(key);
  return out;
}

const std::string& JsonAt::text() const {
  if (!json_->is_string()) fail("this must be a string");
  return json_->as_string();
}

std::int64_t JsonAt::integer() const {
  if (!json_->is_integer()) fail("this must be an integer");
  return json_->as_int();
}

double JsonAt::real() const {
  if (!json_->is_number()) fail("this must be a number");
  return json_->as_double();
}

bool JsonAt::boolean() const {
  if (!json_->is_bool()) fail("this must be true or false");
  return json_->as_bool();
}

std::vector<std::string> JsonAt::texts() const {
  if (json_->is_string()) return {json_->as_string()};
  std::vector<std::string> out;
  for (const JsonAt& element : elements()) out.push_back(element.text());
  return out;
}

Expr JsonAt::expr() const {
  if (json_->is_integer()) return Expr(fmt::format("{}", json_->as_int()), pointer());
  if (json_->is_bool()) return Expr(json_->as_bool() ? "true" : "false", pointer());
  return Expr(text(), pointer());
}

}  // namespace hfshard
