#include "mapping/bindings.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kOption = "option.";
constexpr std::string_view kWhole = "config.";  // config.json itself, whatever config_at says
constexpr std::string_view kUncut = "uncut.";   // the model with all its layers

// One step of a config path: a key of an object, or an index of a list.
const Json* member(const Json& at, const std::string& key) {
  if (!at.is_array()) return at.find(key);
  std::size_t index = 0;
  const auto result = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool number = result.ec == std::errc{} && result.ptr == key.data() + key.size();
  return number && index < at.as_array().size() ? &at.as_array()[index] : nullptr;
}

// What stands at a dotted path; null counts as absent.
const Json* find_path(const Json& root, std::string_view path) {
  const Json* at = &root;
  for (const std::string& key : split(path, '.')) {
    at = member(*at, key);
    if (at == nullptr) return nullptr;
  }
  return at->is_null() ? nullptr : at;
}

// The value of an expression that is no integer, as config.json has it.
std::string shown(const ExprValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return "no value";
}

// What a person changes is config.json, which has other names than the rules.
std::string made_of(const Expr& dim) {
  return fmt::format("look at config.json: it is {} there", dim.text());
}

// Rows of the vocabulary are a number in every family.
void check_vocab(const std::string& name, const std::string& value) {
  const auto rows = parse_whole(value);
  if (name != "vocab" || (rows && *rows > 0)) return;
  throw Error(ErrorCode::usage, fmt::format("option {} wants a whole number from 1, not {}",
                                            quote(name), quote(value)));
}

}  // namespace

Bindings::ShapeOf shapes_of(const Catalog& catalog) {
  return [&catalog](std::string_view name) -> std::optional<Shape> {
    const auto found = catalog.find(name);
    if (!found) return std::nullopt;
    return catalog.tensors[*found].shape;
  };
}

void check_options(const MappingTable& table, const Bindings::Options& options) {
  for (const auto& [name, value] : options) {
    if (std::ranges::find(table.options, name) != table.options.end()) {
      check_vocab(name, value);
      continue;
    }
    const std::vector<std::string> near = meant_names(name, table.options);
    throw Error(ErrorCode::usage,
                fmt::format("family {} has no option {}", quote(table.family), quote(name)))
        .hint(table.options.empty() ? std::string("it has none")
              : near.empty()        ? "its options are " + join(table.options, ", ")
                                    : "did you mean " + join(near, " or ") + "?");
  }
}

Bindings::Bindings(const MappingTable& table, const Json& config, const Options& options,
                   ShapeOf shape_of, const Json* uncut)
    : table_(table),
      config_(config),
      options_(options),
      shape_of_(std::move(shape_of)),
      uncut_(uncut != nullptr ? uncut : &config) {}

ExprValue Bindings::lookup(const std::string& name) const {
  for (const OpenLoop& loop : loops_) {
    if (loop.name == name) return loop.value;
  }
  const auto found = table_.dims.find(name);
  if (found != table_.dims.end()) return dim(name, found->second);
  if (name.starts_with(kOption)) return option(name.substr(kOption.size()));
  return config(name);
}

bool Bindings::tensor_exists(std::string_view name) const {
  return shape_of_ && shape_of_(name).has_value();
}

ExprValue Bindings::tensor_extent(std::string_view name, std::size_t axis) const {
  const std::optional<Shape> shape = shape_of_ ? shape_of_(name) : std::nullopt;
  if (shape && axis < shape->rank()) return static_cast<std::int64_t>((*shape)[axis]);
  return Absent{fmt::format("the source has no tensor {} with an axis {}", quote(name), axis)};
}

ExprValue Bindings::dim(const std::string& name, const Expr& expr) const {
  const auto known = dims_.find(name);
  if (known != dims_.end()) return known->second;
  if (std::ranges::find(computing_, name) != computing_.end()) {
    throw Error(ErrorCode::bad_input, fmt::format("dim {} is defined by itself", quote(name)))
        .by_rule(expr.pointer());
  }
  computing_.push_back(name);
  ExprValue value = expr.evaluate(*this);
  computing_.pop_back();
  return dims_.emplace(name, std::move(value)).first->second;
}

ExprValue Bindings::option(const std::string& name) const {
  const auto found = options_.find(name);
  if (found == options_.end()) {
    return Absent{fmt::format("option {} is needed and not given", quote(name)), /*option=*/true};
  }
  const std::string& text = found->second;
  if (text == "true" || text == "false") return text == "true";
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && result.ec == std::errc{} && result.ptr == text.data() + text.size()) {
    return number;
  }
  return text;
}

const Json* Bindings::find_config(const std::string& path) const {
  return path.starts_with(kUncut) ? find_config(*uncut_, path.substr(kUncut.size()))
                                  : find_config(config_, path);
}

const Json* Bindings::find_config(const Json& config, const std::string& path) const {
  if (path.starts_with(kWhole)) return find_path(config, path.substr(kWhole.size()));
  for (const std::string& place : table_.config_at) {
    const Json* at = place == "." ? find_path(config, path)
                                  : find_path(config, fmt::format("{}.{}", place, path));
    if (at != nullptr) return at;
  }
  return nullptr;
}

std::int64_t Bindings::length(const std::string& path) const {
  const Json* at = find_config(path);
  return at != nullptr && at->is_array() ? static_cast<std::int64_t>(at->as_array().size()) : 0;
}

ExprValue Bindings::config(const std::string& path) const {
  const Json* at = find_config(path);
  if (at == nullptr) {
    return Absent{fmt::format("config.json has no {}, which family {} needs", quote(path),
                              quote(table_.family))};
  }
  if (at->is_bool()) return at->as_bool();
  if (at->is_string()) return at->as_string();
  if (at->is_integer()) return at->as_int();
  if (at->is_number()) return at->as_double();
  throw Error(
      ErrorCode::bad_input,
      fmt::format("{} of config.json is neither a number, a text nor a boolean", quote(path)));
}

std::uint64_t Bindings::extent(const std::string& dim) const {
  for (const OpenLoop& loop : loops_) {
    if (loop.name == dim) return static_cast<std::uint64_t>(loop.end - loop.begin);
  }
  const auto found = table_.dims.find(dim);
  HFSHARD_CHECK(found != table_.dims.end());  // the loader checked it
  const ExprValue found_value = this->dim(dim, found->second);
  const auto* number = std::get_if<std::int64_t>(&found_value);
  if (const auto* absent = std::get_if<Absent>(&found_value))
    throw Error(ErrorCode::bad_input, absent->message).by_rule(found->second.pointer());
  if (number == nullptr) {
    throw Error(ErrorCode::bad_input,
                fmt::format("dim {} is {}, which is no integer", quote(dim), shown(found_value)))
        .by_rule(found->second.pointer())
        .hint(made_of(found->second));
  }
  const std::int64_t value = *number;
  if (value < 0) {
    throw Error(ErrorCode::bad_input, fmt::format("dim {} is {}", quote(dim), value))
        .by_rule(found->second.pointer())
        .hint(made_of(found->second));
  }
  return static_cast<std::uint64_t>(value);
}

void Bindings::push_loop(const LoopRule& loop) {
  OpenLoop out{loop.name, loop.begin.integer(*this), loop.end.integer(*this), 0};
  // Loops count tensors, so a count that no checkpoint has is a mistake of the config; so is one
  // within others.
  constexpr std::int64_t kMaxCount = 1 << 18;
  std::int64_t most = kMaxCount;
  for (const OpenLoop& open : loops_) most /= std::max<std::int64_t>(open.end - open.begin, 1);
  if (out.begin < 0 || out.end < out.begin || out.end - out.begin > most) {
    throw Error(ErrorCode::bad_input, fmt::format("loop {} runs from {} to {}, at most {} times",
                                                  quote(loop.name), out.begin, out.end, most))
        .by_rule(loop.end.pointer());
  }
  out.value = out.begin;
  loops_.push_back(std::move(out));
}

}  // namespace hfshard
