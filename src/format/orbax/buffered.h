#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/coding.h"
#include "bytes/local/output.h"

namespace hfshard::format::orbax {

/// Buffers text and passes it to a sink in larger parts.
class Buffered {
 public:
  explicit Buffered(const ByteSink& sink) : sink_(&sink) {}
  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void flush() {
    if (!buffer_.empty()) (*sink_)(as_bytes(buffer_));
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
  const ByteSink* sink_;
  std::string buffer_;
};

}  // namespace hfshard::format::orbax
