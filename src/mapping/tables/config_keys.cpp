#include "mapping/tables/config_keys.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.h"

namespace hfshard {
namespace {

constexpr std::string_view kOptionScope = "option.";

class InputFinder {
 public:
  explicit InputFinder(const MappingTable& table) : table_(table) {}

  void add(const Expr& expr) {
    for (const std::string& name : expr.names()) add_name(name);
    for (const std::string& list : expr.lists()) add_name(list);
  }

  void add_name(const std::string& name) {
    if (!seen_.insert(name).second) return;
    if (const auto dim = table_.dims.find(name); dim != table_.dims.end()) {
      add(dim->second);
    } else if (name.starts_with(kOptionScope)) {
      options_.insert(name.substr(kOptionScope.size()));
    } else {
      keys_.insert(without_place(name));
    }
  }

  ExprInputs finish() const {
    return {{keys_.begin(), keys_.end()}, {options_.begin(), options_.end()}};
  }

 private:
  // A path can start with the config that it means (Bindings::find_config).
  static std::string without_place(const std::string& name) {
    for (const std::string_view place : {"config.", "uncut."}) {
      if (name.starts_with(place)) return name.substr(place.size());
    }
    return name;
  }

  const MappingTable& table_;
  std::set<std::string> seen_;
  std::set<std::string> keys_;
  std::set<std::string> options_;
};

bool is_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Replaces the names of dims in an expression with their expressions. `depth` counts nested dims.
std::string spelled_out(const MappingTable& table, std::string_view text, int depth) {
  constexpr int kDeepest = 8;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\'') {
      const std::size_t close = std::min(text.find('\'', at + 1), text.size() - 1);
      out += text.substr(at, close + 1 - at);
      at = close + 1;
      continue;
    }
    if (!is_in_name(text[at])) {
      out += text[at++];
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_in_name(text[at])) ++at;
    const std::string name(text.substr(begin, at - begin));
    const auto dim = table.dims.find(name);
    if (dim == table.dims.end() || depth == kDeepest) {
      out += name;
      continue;
    }
    const std::string inner = spelled_out(table, dim->second.text(), depth + 1);
    const bool alone = std::ranges::all_of(inner, is_in_name);
    out += alone ? inner : "(" + inner + ")";
  }
  return out;
}

}  // namespace

std::string spelled_out(const MappingTable& table, std::string_view text) {
  return spelled_out(table, text, 0);
}

std::string keys_text(const ExprInputs& inputs) {
  return inputs.keys.empty() ? std::string() : join(inputs.keys, ", ") + " of config.json";
}

ExprInputs inputs_of(const MappingTable& table, const Expr& expr) {
  InputFinder finder(table);
  finder.add(expr);
  return finder.finish();
}

ExprInputs inputs_of(const MappingTable& table, std::string_view dim) {
  InputFinder finder(table);
  if (table.dims.contains(dim)) finder.add_name(std::string(dim));
  return finder.finish();
}

}  // namespace hfshard
