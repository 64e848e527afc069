#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/coding.h"
#include "bytes/local/source.h"

namespace hfshard {

/// A source of bytes in memory. Requires that ranges are within them.
class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    HFSHARD_CHECK(offset_bytes + out.size() <= bytes_.size());
    std::ranges::copy(as_bytes(bytes_).subspan(offset_bytes, out.size()), out.begin());
  }

 private:
  std::string bytes_;
  std::string name_ = "memory";
};

}  // namespace hfshard
