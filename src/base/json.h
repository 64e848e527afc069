#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hfshard/error.h"

namespace hfshard {

/// The numbers that Python's json reads and writes, and JSON lacks. Source: python/cpython
/// Lib/json/decoder.py (_CONSTANTS).
enum class NotFinite : std::uint8_t { nan, infinity, minus_infinity };
/// Returns it as Python writes it: `-Infinity`.
std::string_view to_string(NotFinite value) noexcept;

/// An integer beyond 64 bits, as the states of random generators have them. It is carried along.
struct LargeInteger {
  std::string digits;  ///< with its sign
  friend bool operator==(const LargeInteger&, const LargeInteger&) = default;
};

/// A JSON value. Objects are sorted by key; integers and reals are kept apart.
/// Reading is strict: duplicate keys, trailing bytes and non-UTF-8 are errors.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() = default;  ///< null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<std::int64_t>(value)) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::uint32_t value) : value_(static_cast<std::int64_t>(value)) {}
  Json(std::uint64_t value) : value_(value) {
    // One form per number, so that equality is by value: unsigned only beyond the signed range.
    if (value <= INT64_MAX) value_ = static_cast<std::int64_t>(value);
  }
  Json(double value) : value_(value) {}
  Json(NotFinite value) : value_(value) {}
  Json(LargeInteger value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const noexcept { return std::holds_alternative<bool>(value_); }
  bool is_string() const noexcept { return std::holds_alternative<std::string>(value_); }
  bool is_array() const noexcept { return std::holds_alternative<Array>(value_); }
  bool is_object() const noexcept { return std::holds_alternative<Object>(value_); }
  /// True for numbers of 64 bits written without fraction or exponent.
  bool is_integer() const noexcept;
  bool is_number() const noexcept;
  /// The number, if it isn't finite.
  std::optional<NotFinite> as_not_finite() const noexcept;
  /// The integer, if it is beyond 64 bits, or null.
  const LargeInteger* as_large() const noexcept { return std::get_if<LargeInteger>(&value_); }

  /// Typed access. Throws: bad_input naming the wanted and the found type; negative or fractional
  /// sizes are errors.
  bool as_bool() const;
  std::int64_t as_int() const;
  std::uint64_t as_uint() const;
  double as_double() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;
  Array& array();    ///< becomes an empty array if null
  Object& object();  ///< becomes an empty object if null

  /// Member of an object, or nullptr if absent (or if this is no object).
  const Json* find(std::string_view key) const noexcept;
  /// Member of an object. Throws: bad_input if absent.
  const Json& at(std::string_view key) const;
  Json& operator[](std::string_view key) { return object()[std::string(key)]; }

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, NotFinite, LargeInteger,
               std::string, Array, Object>
      value_;
};

/// Heap that a value holds (base/heap.h).
std::uint64_t heap_bytes(const Json& value);

/// Returns a text of Python's json as JSON: NaN, Infinity and -Infinity become strings that
/// parse_json turns into NotFinite. A text without them stays as it is.
std::string without_not_finite(std::string text);
/// Parses one JSON text, of Python's json too. `name` is the file as named in errors. If `text` is
/// a part of `whole`, errors give the place in `whole`. Throws: bad_input with the byte offset,
/// line and column (syntax, duplicate key, trailing bytes, depth above 64).
Json parse_json(std::string_view text, std::string_view name, std::string_view whole = {});
/// Finds the place at which a text that another parser refused isn't JSON. Allocates nothing.
/// Throws: as parse_json, for the grammar alone.
void check_json(std::string_view text, std::string_view name);
/// Returns the keys whose values differ, or that only one of two objects has, sorted. Empty if one
/// isn't an object.
std::vector<std::string> differing_keys(const Json& a, const Json& b);
/// Line and column of a byte of a text.
TextPlace text_place(std::string_view text, std::size_t offset);
/// Compact, keys sorted, NotFinite as Python writes it, ASCII with \u escapes for control
/// characters; shortest round-trip reals. Deterministic.
std::string dump_json(const Json& value);
/// Same as text for people and any JSON parser. UTF-8 stays, except for characters that a terminal
/// doesn't show. NotFinite becomes a string.
std::string shown_json(const Json& value);
/// As dump_json, indented by two spaces and ending with a newline.
std::string dump_json_pretty(const Json& value);

}  // namespace hfshard
