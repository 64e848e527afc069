#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/language/expr.h"
#include "mapping/tables/schema.h"

namespace hfshard {

/// The place of an expanded family's value in the original files.
struct Origin {
  std::string pointer;
  std::string used_by;  ///< where the part is used, if one
  /// False if it combines several places, so its members don't have their own.
  bool exact = true;
};
/// By the path in the expanded family: `/schemes/maxtext/layer/rules/3`.
using Origins = std::map<std::string, Origin, std::less<>>;

/// A JSON value with its pointer, so every type error states its place. Borrows the value; copies
/// of it must not outlive the document.
class JsonAt {
 public:
  JsonAt(const Json& json, std::string pointer) : json_(&json), at_{std::move(pointer), {}, true} {}
  /// The root of an expanded family. `origins` must outlive this.
  JsonAt(const Json& json, std::string pointer, const Origins& origins)
      : json_(&json), at_{std::move(pointer), {}, true}, origins_(&origins) {}

  const Json& json() const noexcept { return *json_; }
  /// Returns the place, for errors.
  std::string pointer() const;
  /// Throws bad_input with this pointer.
  [[noreturn]] void fail(const std::string& sentence) const;

  /// Checks that this is an object with the block's keys. `open` admits further keys.
  void check_keys(Block block, bool open = false) const;
  bool has(std::string_view key) const noexcept { return json_->find(key) != nullptr; }
  /// Returns a member of an object. Throws: bad_input if absent.
  JsonAt at(std::string_view key) const;
  /// Returns an element of an array.
  JsonAt at(std::size_t index) const;
  /// Returns the number of elements. Throws unless it is an array.
  std::size_t size() const;
  std::vector<JsonAt> elements() const;
  /// Returns the keys of an object, sorted.
  std::vector<std::string> keys() const;

  const std::string& text() const;
  std::int64_t integer() const;
  double real() const;
  bool boolean() const;
  /// Reads a text or an array of texts.
  std::vector<std::string> texts() const;
  /// Reads a text as an expression. An integer or a boolean is one too.
  Expr expr() const;

 private:
  JsonAt child(const Json& json, std::string_view step) const;

  const Json* json_;
  Origin at_;
  const Origins* origins_ = nullptr;
  std::string path_;  ///< in the expanded family
};

}  // namespace hfshard
