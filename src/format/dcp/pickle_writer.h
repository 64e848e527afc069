#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/dcp/opcodes.h"

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
  /// A tuple of integers.
  PickleWriter& integers(const Shape& values);
  /// Keeps what is on top of the stack under a number, and brings it back.
  PickleWriter& put(std::uint32_t number);
  PickleWriter& get(std::uint32_t number);

 private:
  template <typename T>
  void number(T value);
  std::string& out_;
};

}  // namespace hfshard::format::dcp
