#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/pickle_opcodes.h"

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// Appends opcodes of protocol 2 to a text. Source: python/cpython Lib/pickletools.py.
class PickleWriter {
 public:
  explicit PickleWriter(std::string& out) : out_(out) {}
  PickleWriter& op(Op op);
  PickleWriter& begin();  ///< PROTO 2
  PickleWriter& global(std::string_view module, std::string_view name);
  PickleWriter& text(std::string_view text);
  PickleWriter& integer(std::uint64_t value);
  /// Begin and end a tuple around its items.
  PickleWriter& begin_tuple(std::size_t items);
  PickleWriter& end_tuple(std::size_t items);
  /// Writes a tuple of integers.
  PickleWriter& integers(const Shape& values);
  /// Stores the top of the stack under a number in the memo, and pushes it again.
  PickleWriter& put(std::uint32_t number);
  PickleWriter& get(std::uint32_t number);

 private:
  template <typename T>
  void number(T value);
  std::string& out_;
};

}  // namespace hfshard::format::dcp
