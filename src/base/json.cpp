#include "base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/heap.h"
#include "base/text.h"

namespace hfshard {
namespace {

constexpr std::size_t kMaxDepth = 64;

Error syntax_error(std::string sentence, std::string_view name, std::size_t offset,
                   std::string_view text) {
  const std::size_t total = text.size();
  offset = std::min(offset, total);
  Error error(ErrorCode::bad_input, std::move(sentence));
  error.in_file(name).at({offset, offset < total ? offset + 1 : offset}, total);
  error.on_line(text_place(text, offset));
  return error;
}

std::string malformed(const nlohmann::json::exception& cause) {
  // The library's text is "[json...] parse error at line 1, column 3: <what we want>".
  std::string_view what = cause.what();
  const auto colon = what.find(": ");
  if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
  return fmt::format("malformed JSON: {}", printable(what));
}

// Refuses bytes that the library's lexer skips before the text, or takes for its end.
void check_bytes(std::string_view text, std::string_view name) {
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) throw syntax_error("a NUL byte in JSON", name, nul, text);
  if (text.starts_with("\xEF\xBB\xBF"))
    throw syntax_error("a byte order mark before JSON", name, 0, text);
}

// A character iterator that tells how far the lexer has read, since SAX events carry no position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const noexcept { return *at_; }
  CountingIterator& operator++() noexcept {
    *reached_ = ++at_;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) noexcept {
    return a.at_ == b.at_;
  }

 private:
  const char* at_;
  const char** reached_;
};

// The numbers that Python writes, and how without_not_finite writes them: no text of a person's
// begins with this.
constexpr std::array<std::pair<std::string_view, NotFinite>, 3> kNotFinite{
    {{"NaN", NotFinite::nan},
     {"-Infinity", NotFinite::minus_infinity},
     {"Infinity", NotFinite::infinity}}};
constexpr std::string_view kMark{"\0hfshard number ", 16};
constexpr std::string_view kEscapedMark = "\\u0000hfshard number ";

std::optional<NotFinite> not_finite(std::string_view text) {
  if (!text.starts_with(kMark)) return std::nullopt;
  text.remove_prefix(kMark.size());
  for (const auto& [word, value] : kNotFinite) {
    if (text == word) return value;
  }
  return std::nullopt;
}

bool may_be_not_finite(std::string_view text) {
  return text.find("NaN") != std::string_view::npos ||
         text.find("Infinity") != std::string_view::npos;
}

// Builds a Json from SAX events. Refuses what nlohmann-json accepts: duplicate keys, any depth.
// Keeps integers that it makes doubles.
class Builder {
 public:
  Builder(std::string_view text, std::string_view name, std::string_view whole)
      : text_(text), name_(name), whole_(whole), reached_(text.data()) {}

  Json run() {
    check_bytes(text_, name_);  // of a part: its parser has looked at the whole
    const char* const end = text_.data() + text_.size();
    const bool good = nlohmann::json::sax_parse(CountingIterator(text_.data(), &reached_),
                                                CountingIterator(end, &reached_), this);
    HFSHARD_CHECK(good && open_.empty());
    return std::move(root_);
  }

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json(value)); }
  bool number_integer(std::int64_t value) { return put(Json(value)); }
  bool number_unsigned(std::uint64_t value) { return put(Json(value)); }
  bool number_float(double value, const std::string& written) {
    const bool whole = written.find_first_of(".eE") == std::string::npos;
    return put(whole ? Json(LargeInteger{written}) : Json(value));
  }
  bool string(std::string& value) {
    const auto number = not_finite(value);
    return put(number ? Json(*number) : Json(std::move(value)));
  }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return false; }

  bool start_object(std::size_t /*size*/) { return open(Json(Json::Object())); }
  bool start_array(std::size_t /*size*/) { return open(Json(Json::Array())); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& value) {
    if (not_finite(value)) fail("malformed JSON: a number instead of a key", here());
    if (open_.back()->object().contains(value)) {
      fail(fmt::format("key {} appears twice", quote(value)), here());
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& cause) {
    fail(malformed(cause), position == 0 ? 0 : position - 1);
  }

 private:
  [[noreturn]] void fail(std::string sentence, std::size_t offset) const {
    const auto begin = static_cast<std::size_t>(text_.data() - whole_.data());
    throw syntax_error(std::move(sentence), name_, begin + std::min(offset, text_.size()), whole_);
  }

  // Offset of the last character read.
  std::size_t here() const {
    const auto read = static_cast<std::size_t>(reached_ - text_.data());
    return read == 0 ? 0 : read - 1;
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.array().emplace_back(std::move(value));
    return &parent.object().emplace(std::move(key_), std::move(value)).first->second;
  }

  bool open(Json value) {
    if (open_.size() == kMaxDepth) fail(fmt::format("JSON deeper than {}", kMaxDepth), here());
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view name_;
  std::string_view whole_;
  const char* reached_;
  Json root_;
  std::vector<Json*> open_;  // pointers stay valid: only the innermost container grows
  std::string key_;
};

// Takes every event, so that only the grammar is looked at and nothing is held.
struct GrammarCheck {
  std::string_view text;
  std::string_view name;

  static bool null() { return true; }
  static bool boolean(bool /*value*/) { return true; }
  static bool number_integer(std::int64_t /*value*/) { return true; }
  static bool number_unsigned(std::uint64_t /*value*/) { return true; }
  static bool number_float(double /*value*/, const std::string& /*written*/) { return true; }
  static bool string(const std::string& /*value*/) { return true; }
  static bool binary(const std::vector<std::uint8_t>& /*value*/) { return true; }
  static bool start_object(std::size_t /*size*/) { return true; }
  static bool start_array(std::size_t /*size*/) { return true; }
  static bool end_object() { return true; }
  static bool end_array() { return true; }
  static bool key(const std::string& /*value*/) { return true; }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& cause) const {
    throw syntax_error(malformed(cause), name, position == 0 ? 0 : position - 1, text);
  }
};

std::string_view type_name(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "a boolean";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.as_large() != nullptr) return "an integer beyond 64 bits";
  return value.is_integer() ? "an integer" : "a number with a fraction";
}

[[noreturn]] void wrong_type(std::string_view wanted, const Json& found) {
  throw Error(ErrorCode::bad_input,
              fmt::format("JSON has {} instead of {}", type_name(found), wanted));
}

}  // namespace

std::string_view to_string(NotFinite value) noexcept {
  return std::ranges::find(kNotFinite, value, &std::pair<std::string_view, NotFinite>::second)
      ->first;
}

bool Json::is_integer() const noexcept {
  return std::holds_alternative<std::int64_t>(value_) ||
         std::holds_alternative<std::uint64_t>(value_);
}

bool Json::is_number() const noexcept {
  return is_integer() || std::holds_alternative<double>(value_) ||
         std::holds_alternative<NotFinite>(value_);
}

std::optional<NotFinite> Json::as_not_finite() const noexcept {
  const auto* value = std::get_if<NotFinite>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

bool Json::as_bool() const {
  if (const auto* value = std::get_if<bool>(&value_)) return *value;
  wrong_type("a boolean", *this);
}

std::int64_t Json::as_int() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    throw Error(ErrorCode::bad_input, fmt::format("the integer {} is above 2^63 - 1", *value));
  }
  wrong_type("an integer", *this);
}

std::uint64_t Json::as_uint() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) {
    if (*value >= 0) return static_cast<std::uint64_t>(*value);
    throw Error(ErrorCode::bad_input, fmt::format("{} is negative, and a size can't be", *value));
  }
  wrong_type("an integer of zero or more", *this);
}

double Json::as_double() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<NotFinite>(&value_)) {
    if (*value == NotFinite::nan) return std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    return *value == NotFinite::infinity ? infinity : -infinity;
  }
  wrong_type("a number", *this);
}

const std::string& Json::as_string() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  wrong_type("a string", *this);
}

const Json::Array& Json::as_array() const {
  if (const auto* value = std::get_if<Array>(&value_)) return *value;
  wrong_type("an array", *this);
}

const Json::Object& Json::as_object() const {
  if (const auto* value = std::get_if<Object>(&value_)) return *value;
  wrong_type("an object", *this);
}

Json::Array& Json::array() {
  if (is_null()) value_ = Array();
  if (auto* value = std::get_if<Array>(&value_)) return *value;
  wrong_type("an array", *this);
}

Json::Object& Json::object() {
  if (is_null()) value_ = Object();
  if (auto* value = std::get_if<Object>(&value_)) return *value;
  wrong_type("an object", *this);
}

const Json* Json::find(std::string_view key) const noexcept {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  throw Error(ErrorCode::bad_input, fmt::format("JSON lacks the member {}", quote(key)));
}

std::string without_not_finite(std::string text) {
  if (!may_be_not_finite(text)) return text;
  std::string out;
  out.reserve(text.size() + 64);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    const std::string_view rest = std::string_view(text).substr(i);
    const auto found = std::ranges::find_if(
        kNotFinite, [&](const auto& word) { return !in_string && rest.starts_with(word.first); });
    if (found == kNotFinite.end()) {
      out += c;
      continue;
    }
    out += fmt::format("\"{}{}\"", kEscapedMark, found->first);
    i += found->first.size() - 1;
  }
  return out;
}

Json parse_json(std::string_view text, std::string_view name, std::string_view whole) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw Error(ErrorCode::bad_input, "the file is empty instead of JSON")
        .in_file(name)
        .at({0, 0}, text.size());
  if (may_be_not_finite(text)) {
    // Places in the text that is parsed then, the next best.
    const std::string json = without_not_finite(std::string(text));
    return Builder(json, name, json).run();
  }
  return Builder(text, name, whole.empty() ? text : whole).run();
}

void check_json(std::string_view text, std::string_view name) {
  check_bytes(text, name);
  GrammarCheck check{text, name};
  HFSHARD_CHECK(nlohmann::json::sax_parse(text.begin(), text.end(), &check));
}

TextPlace text_place(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  return {static_cast<std::uint64_t>(std::ranges::count(before, '\n')) + 1,
          static_cast<std::uint64_t>(std::ranges::count_if(line, is_start)) + 1};
}

std::vector<std::string> differing_keys(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return {};
  std::vector<std::string> out;
  for (const auto& [key, value] : a.as_object()) {
    const Json* other = b.find(key);
    if (other == nullptr || !(*other == value)) out.push_back(key);
  }
  for (const auto& [key, value] : b.as_object()) {
    if (a.find(key) == nullptr) out.push_back(key);
  }
  std::ranges::sort(out);
  return out;
}

std::uint64_t heap_bytes(const Json& value) {
  if (value.is_string()) return heap_bytes(value.as_string());
  if (const LargeInteger* large = value.as_large()) return heap_bytes(large->digits);
  if (value.is_array()) return heap_bytes<Json>(value.as_array());
  return value.is_object() ? heap_bytes(value.as_object()) : 0;
}

}  // namespace hfshard
