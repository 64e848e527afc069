#include "mapping/resolve/bindings.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "mapping/resolve/rope_facts.h"
#include "mapping/tables/config_keys.h"
#include "mapping/tables/quantization.h"
#include "mapping/tables/scheme_defaults.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A dim is evaluated within the one that needs it.
constexpr std::size_t kMaxDimChain = 24;

constexpr std::string_view kOption = "option.";
constexpr std::string_view kWhole = "config.";  // config.json itself, regardless of config_at
constexpr std::string_view kUncut = "uncut.";   // the model with all its layers
constexpr std::string_view kAny = "any";
constexpr std::string_view kRope = "rope.";  // rotary facts, as transformers reads them

// Returns one step of a config path: a key of an object, or an index of a list.
const Json* member(const Json& at, const std::string& key) {
  if (!at.is_array()) return at.find(key);
  std::size_t index = 0;
  const auto result = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool number = result.ec == std::errc{} && result.ptr == key.data() + key.size();
  return number && index < at.as_array().size() ? &at.as_array()[index] : nullptr;
}

// Returns the value at the keys of a path from number `first` on. Null counts as absent. If an
// object lacks the key `any`, it means the first member that has the rest of the path.
const Json* find_keys(const Json& at, const std::vector<std::string>& keys, std::size_t first) {
  if (first == keys.size()) return at.is_null() ? nullptr : &at;
  if (const Json* found = member(at, keys[first])) return find_keys(*found, keys, first + 1);
  if (keys[first] != kAny || !at.is_object()) return nullptr;
  for (const auto& [name, value] : at.as_object()) {
    if (const Json* found = find_keys(value, keys, first + 1)) return found;
  }
  return nullptr;
}

const Json* find_path(const Json& root, std::string_view path) {
  return find_keys(root, split(path, '.'), 0);
}

// Checks that the vocabulary is a number of rows, as in every family.
void check_vocab(const std::string& name, const std::string& value) {
  const auto rows = parse_whole(value);
  if (name != "vocab" || (rows && *rows > 0)) return;
  std::string wrong = fmt::format("option {} needs a whole number from 1", quote(name));
  if (value != "true") wrong += ", not " + quote(value);  // that is --with vocab
  throw Error(ErrorCode::usage, wrong).hint("pass --vocab N");
}

// Checks an optional part, which is there or not.
void check_part(const std::string& name, const std::string& value) {
  if (std::ranges::find(kParts, name) == kParts.end() || value == "true" || value == "false")
    return;
  throw Error(ErrorCode::usage,
              fmt::format("option {} needs true or false, not {}", quote(name), quote(value)))
      .hint("pass --with " + name);
}

// Checks that codes are kept or decoded, as in every family with that choice.
void check_codes(const std::string& name, const std::string& value) {
  if (name != kCodesOption || value == kKept || value == "decoded") return;
  throw Error(ErrorCode::usage,
              fmt::format("option {} needs kept or decoded, not {}", quote(name), quote(value)));
}

// Checks an option that selects one of a few trees.
void check_form(const MappingTable& table, const std::string& name, const std::string& value) {
  for (const Scheme& scheme : table.schemes) {
    const auto form = scheme.forms.find(name);
    if (form == scheme.forms.end()) continue;
    if (std::ranges::find(form->second, value) != form->second.end()) return;
    throw Error(ErrorCode::usage, fmt::format("option {} is one of {}, not {}", quote(name),
                                              join(form->second, ", "), quote(value)));
  }
}

// Returns whether it is the option for a loader's release. Throws: usage, if the release is
// unknown.
bool check_release(const std::string& name, const std::string& value) {
  if (releases_of(name).empty()) return false;
  const std::string release = known_release(name, value);
  if (release == value) return true;
  throw Error(ErrorCode::usage,
              fmt::format("option {} needs the release {}, not {}", name, release, quote(value)));
}

}  // namespace

Bindings::ShapeOf shapes_of(const Catalog& catalog) {
  return [&catalog](std::string_view name) -> std::optional<Shape> {
    if (const auto found = catalog.find(name)) return catalog.tensors[*found].shape;
    // Only the rules know the shape of packed codes.
    const auto has = [&](std::string_view other) { return catalog.find(other).has_value(); };
    return stored_as(name, has).empty() ? std::nullopt : std::optional(Shape{});
  };
}

void check_options(const MappingTable& table, const Bindings::Options& options) {
  for (const auto& [name, value] : options) {
    if (std::ranges::find(table.options, name) != table.options.end()) {
      check_vocab(name, value);
      check_part(name, value);
      check_codes(name, value);
      check_form(table, name, value);
      check_release(name, value);
      continue;
    }
    if (check_release(name, value)) continue;  // the tree doesn't depend on the release
    const bool is_part = value == "true";
    const char* const kind = is_part ? "optional part" : "option";
    std::vector<std::string> own = table.options;
    std::erase_if(own, [&](const std::string& option) {
      return !releases_of(option).empty() ||
             (is_part && std::ranges::find(kParts, option) == kParts.end());
    });
    const std::vector<std::string> near = meant_names(name, own);
    throw Error(ErrorCode::usage,
                fmt::format("family {} has no {} {}", quote(table.family), kind, quote(name)))
        .hint(own.empty()       ? fmt::format("it doesn't have {}s", kind)
              : !near.empty()   ? "did you mean " + join(near, " or ") + "?"
              : own.size() == 1 ? fmt::format("its only {} is {}", kind, own.front())
                                : fmt::format("its {}s are {}", kind, join(own, ", ")));
  }
}

bool keeps_codes(const Bindings::Options& options) {
  const auto found = options.find(kCodesOption);
  return found != options.end() && found->second == kKept;
}

std::vector<Bindings::Options> for_each_form(const Scheme& scheme,
                                             const Bindings::Options& options) {
  std::vector<Bindings::Options> out;
  if (!scheme.keeps_codes.empty() && !options.contains(kCodesOption)) {
    out.push_back(options);
    out.back()[kCodesOption] = kKept;
  }
  out.push_back(options);
  if (!scheme.by_release.empty() && !options.contains(scheme.name)) {
    const std::vector<std::string> releases = releases_of(scheme.name);
    for (std::size_t i = 1; i < releases.size(); ++i) {
      Bindings::Options older = options;
      older[scheme.name] = releases[i];
      out.push_back(std::move(older));
    }
  }
  for (const auto& [name, values] : scheme.forms) {
    if (options.contains(name)) continue;
    for (const std::string& value : values) {
      out.push_back(options);
      out.back()[name] = value;
    }
  }
  return out;
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
  if (name.starts_with(kRope)) {
    return rope_fact([this](const std::string& key) { return find_config(key); },
                     std::string_view(name).substr(kRope.size()));
  }
  return config(name);
}

bool Bindings::tensor_exists(std::string_view name) const {
  return shape_of_ && shape_of_(name).has_value();
}

ExprValue Bindings::tensor_extent(std::string_view name, std::size_t axis) const {
  const std::optional<Shape> shape = shape_of_ ? shape_of_(name) : std::nullopt;
  if (shape && axis < shape->rank()) return static_cast<std::int64_t>((*shape)[axis]);
  return Absent{fmt::format("the source lacks a tensor {} with an axis {}", quote(name), axis)};
}

ExprValue Bindings::dim(const std::string& name, const Expr& expr) const {
  const auto known = dims_.find(name);
  if (known != dims_.end()) return known->second;
  if (std::ranges::find(computing_, name) != computing_.end()) {
    throw Error(ErrorCode::bad_input, fmt::format("dim {} is defined by itself", quote(name)))
        .by_rule(expr.pointer());
  }
  if (computing_.size() >= kMaxDimChain) {
    throw Error(ErrorCode::limit, fmt::format("dim {} depends on more than {} other dims",
                                              quote(computing_.front()), kMaxDimChain))
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
    return Absent{fmt::format("pass option {}, which the family needs", quote(name)),
                  /*option=*/true};
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

bool Bindings::is_stated(const std::string& path) const {
  const std::size_t dot = path.rfind('.');
  const std::string inside = dot == std::string::npos ? std::string() : path.substr(0, dot + 1);
  return std::ranges::any_of(table_.config_at, [&](const std::string& place) {
    const std::string above = (place == "." ? std::string() : place + ".") + inside;
    const Json* at =
        above.empty() ? &config_ : find_path(config_, above.substr(0, above.size() - 1));
    return at != nullptr && at->is_object() && at->find(path.substr(inside.size())) != nullptr;
  });
}

ExprValue Bindings::config(const std::string& path) const {
  const Json* at = find_config(path);
  if (at == nullptr) {
    return Absent{fmt::format("config.json lacks {}, which family {} needs", quote(path),
                              quote(table_.family))};
  }
  if (at->is_bool()) return at->as_bool();
  if (at->is_string()) return at->as_string();
  if (at->is_integer()) return at->as_int();
  if (at->is_number()) return at->as_double();
  if (at->is_array()) return dump_json(*at);
  const char* const found =
      at->as_large() == nullptr ? "an object instead of a value" : "an integer beyond 64 bits";
  throw Error(ErrorCode::bad_input, fmt::format("{} in config.json is {}", quote(path), found));
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
  if (number == nullptr || *number < 0) {
    const std::string keys = keys_text(inputs_of(table_, dim));
    Error error(ErrorCode::bad_input,
                fmt::format("a size must be a whole number of at least 0, and {} sets it to {}",
                            keys.empty() ? "the mapping" : keys, shown_value(found_value)));
    const std::string formula = spelled_out(table_, found->second.text());
    if (!keys.starts_with(formula + " ")) error.hint("the size is " + formula);
    throw error.by_rule(found->second.pointer());
  }
  return static_cast<std::uint64_t>(*number);
}

std::string Bindings::shown(const std::string& text) const { return spelled_out(table_, text); }

void Bindings::push_loop(const LoopRule& loop) {
  OpenLoop out{loop.name, loop.begin.integer(*this), loop.end.integer(*this), 0};
  // Loops count tensors. A count that no checkpoint has is a mistake in the config, also if loops
  // are nested. The outermost loop counts layers, and the largest models have some hundred.
  constexpr std::int64_t kMaxCount = 1 << 18;
  constexpr std::int64_t kMaxLayers = 1 << 12;
  std::int64_t most = loops_.empty() ? kMaxLayers : kMaxCount;
  for (const OpenLoop& open : loops_) most /= std::max<std::int64_t>(open.end - open.begin, 1);
  if (out.begin < 0 || out.end < out.begin || out.end - out.begin > most) {
    const std::string keys = keys_text(inputs_of(table_, loop.end));
    if (out.begin == 0 && out.end < 0 && !keys.empty()) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} gives {}, and it can't be negative", keys, out.end))
          .by_rule(loop.end.pointer());
    }
    throw Error(ErrorCode::bad_input,
                fmt::format("{} numbers tensors from {} to {}, and hfshard can number at most {}",
                            keys.empty() ? "the mapping" : keys, out.begin, out.end, most))
        .by_rule(loop.end.pointer());
  }
  out.value = out.begin;
  loops_.push_back(std::move(out));
}

}  // namespace hfshard
