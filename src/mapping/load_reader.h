#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/expr.h"
#include "mapping/schema.h"

namespace hfshard {

/// Where a value of an expanded family stands in the files that were written.
struct Origin {
  std::string pointer;
  std::string used_by;  ///< where the family uses the part that it is from; empty: its own
  bool exact = true;    ///< false: put together of several places, so its members have no own
};
/// By the path in the expanded family: `/schemes/maxtext/layer/rules/3`.
using Origins = std::map<std::string, Origin, std::less<>>;

/// A JSON value together with its pointer, so that every wrong type is an error that says where it
/// stands. Borrows the value; copies of it must not outlive the document.
class JsonAt {
 public:
  JsonAt(const Json& json, std::string pointer) : json_(&json), at_{std::move(pointer), {}, true} {}
  /// The root of an expanded family; `origins` must outlive this.
  JsonAt(const Json& json, std::string pointer, const Origins& origins)
      : json_(&json), at_{std::move(pointer), {}, true}, origins_(&origins) {}

  const Json& json() const noexcept { return *json_; }
  /// Where it stands, as errors name it.
  std::string pointer() const;
  /// Throws bad_input with this pointer.
  [[noreturn]] void fail(const std::string& sentence) const;

  /// Checks that this is an object with the block's keys. `open` admits further keys.
  void check_keys(Block block, bool open = false) const;
  bool has(std::string_view key) const noexcept { return json_->find(key) != nullptr; }
  /// Member of an object. Throws: bad_input if absent.
  JsonAt at(std::string_view key) const;
  /// Element of an array.
  JsonAt at(std::size_t index) const;
  /// Number of elements; throws unless an array.
  std::size_t size() const;
  std::vector<JsonAt> elements() const;
  /// Keys of an object, sorted.
  std::vector<std::string> keys() const;

  const std::string& text() const;
  std::int64_t integer() const;
  double real() const;
  bool boolean() const;
  /// A text or an array of texts.
  std::vector<std::string> texts() const;
  /// A text as an expression; an integer or a boolean is one too.
  Expr expr() const;

 private:
  JsonAt child(const Json& json, std::string_view step) const;

  const Json* json_;
  Origin at_;
  const Origins* origins_ = nullptr;
  std::string path_;  ///< in the expanded family
};

}  // namespace hfshard
