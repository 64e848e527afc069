#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/expr.h"
#include "mapping/schema.h"

namespace hfshard {

/// A JSON value together with its pointer, so that every wrong type is an error that says where it
/// stands. Borrows the value; copies of it must not outlive the document.
class JsonAt {
 public:
  JsonAt(const Json& json, std::string pointer) : json_(&json), pointer_(std::move(pointer)) {}

  const Json& json() const noexcept { return *json_; }
  const std::string& pointer() const noexcept { return pointer_; }
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
  const Json* json_;
  std::string pointer_;
};

}  // namespace hfshard
