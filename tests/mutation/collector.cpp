#include "mutation/collector.h"

#include <cctype>

#include <fmt/format.h>

#include "mutation/pattern_text.h"

namespace hfshard::mutation {
namespace {

constexpr std::string_view kRange = " .. ";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(const Json* value) {
  if (value == nullptr) return "(nothing)";
  return value->is_string() ? value->as_string() : dump_json(*value);
}

const Json* find_at(const Json& root, const Path& path) {
  const Json* at = &root;
  for (const std::string& key : path) {
    if (at->is_array()) {
      const auto index = static_cast<std::size_t>(std::stoull(key));
      at = index < at->as_array().size() ? &at->as_array()[index] : nullptr;
    } else {
      at = at->find(key);
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

// Returns whether a name of the file has a text as value, which can't be added to.
bool is_text(const Json& family, const std::string& name) {
  const Json* dim = family.at("dims").find(name);
  return dim != nullptr && dim->is_string() && dim->as_string().find('\'') != std::string::npos;
}

}  // namespace

void Collector::add(Kind kind, const Path& rule, std::vector<Edit> edits) {
  Mutant mutant{kind, rule, {}, {}, std::move(edits)};
  std::string key;
  bool changes = false;
  for (const Edit& edit : mutant.edits) {
    const Json* old = find_at(family_, edit.at);
    const std::string before = shown(old);
    const std::string after = shown(edit.value ? &*edit.value : nullptr);
    changes = changes || before != after;
    mutant.before += (mutant.before.empty() ? "" : "; ") + before;
    mutant.after += (mutant.after.empty() ? "" : "; ") + after;
    key += pointer_of(edit.at) + " " + after + "\n";
  }
  if (changes && seen_.insert(key).second) out_.push_back(std::move(mutant));
}

void Collector::set(Kind kind, const Path& rule, const Path& at, Json value) {
  add(kind, rule, {{at, std::move(value)}});
}

void Collector::remove(Kind kind, const Path& rule, const Path& at) {
  add(kind, rule, {{at, std::nullopt}});
}

Path below(const Path& path, std::string key) {
  Path out = path;
  out.push_back(std::move(key));
  return out;
}

Path below(const Path& path, std::size_t index) { return below(path, std::to_string(index)); }

LoopText parse_loop(const std::string& name, const Json& range) {
  const std::string text = range.is_string() ? range.as_string() : dump_json(range);
  const std::size_t dots = text.find(kRange);
  if (dots == std::string::npos) return {name, "0", text};
  return {name, text.substr(0, dots), text.substr(dots + kRange.size())};
}

void add_loop_mutants(Collector& out, const Path& rule, const Path& at, const LoopText& loop) {
  out.set(Kind::index, rule, at, fmt::format("{} .. ({}) - 1", loop.begin, loop.end));
  out.set(Kind::index, rule, at, fmt::format("({}) + 1 .. {}", loop.begin, loop.end));
}

void add_name_mutants(Collector& out, const Path& rule, const Path& at, const std::string& text) {
  const std::size_t end = text.find(" [");
  for (const Span& span : braces_of(std::string_view(text).substr(0, end))) {
    add_index_mutants(out, Kind::index, rule, at, text, span.begin, span.end);
  }
}

void add_index_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end) {
  const std::string expression = text.substr(begin, end - begin);
  if (is_text(out.family(), expression)) return;
  const auto set = [&](const std::string& by) {
    out.set(kind, rule, at, replaced(text, {begin, end}, by));
  };
  set(fmt::format("({}) + 1", expression));
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (!is_digit(expression[i]) || (i > 0 && is_word(expression[i - 1]))) continue;
    std::size_t stop = i;
    while (stop < expression.size() && is_digit(expression[stop])) ++stop;
    const std::uint64_t constant = std::stoull(expression.substr(i, stop - i));
    set(replaced(expression, {i, stop}, std::to_string(constant + 1)));
    i = stop;
  }
}

void add_order_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end,
                       const LoopText& loop) {
  const std::string expression = text.substr(begin, end - begin);
  const std::string reversed =
      fmt::format("(({}) + ({}) - 1 - {})", loop.begin, loop.end, loop.name);
  const std::string rotated =
      fmt::format("({0} + ({1} - ({0}) + 1) % (({2}) - ({0})))", loop.begin, loop.name, loop.end);
  for (const std::string& by : {reversed, rotated}) {
    const std::string other = with_name(expression, loop.name, by);
    if (!other.empty()) out.set(kind, rule, at, replaced(text, {begin, end}, other));
  }
}

std::string with_name(const std::string& expression, const std::string& name,
                      const std::string& by) {
  std::string out;
  bool found = false;
  for (std::size_t i = 0; i < expression.size();) {
    std::size_t stop = i;
    while (stop < expression.size() && is_word(expression[stop])) ++stop;
    const bool path = i > 0 && expression[i - 1] == '.' && (i < 2 || expression[i - 2] != '.');
    if (stop == i) {
      out += expression[i++];
      continue;
    }
    const std::string word = expression.substr(i, stop - i);
    const bool same = word == name && !path;
    found = found || same;
    out += same ? by : word;
    i = stop;
  }
  return found ? out : std::string();
}

std::string pointer_of(const Path& path) {
  std::string out = "#";
  for (const std::string& key : path) out += "/" + key;
  return out;
}

const Json& value_at(const Json& root, const Path& path) {
  const Json* found = find_at(root, path);
  HFSHARD_CHECK(found != nullptr);
  return *found;
}

}  // namespace hfshard::mutation
