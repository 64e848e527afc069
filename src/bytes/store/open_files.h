#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bytes/store/store.h"

namespace hfshard {

/// Keeps some of many files open, each under the caller's number. Thread-safe.
class OpenFiles {
 public:
  /// Returns the file, and opens it if needed. Throws: as Store::open.
  std::shared_ptr<const SourceFile> open(std::uint32_t number, const StorePath& path) const;

 private:
  static constexpr std::size_t kMax = 64;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::uint32_t, std::shared_ptr<const SourceFile>>> open_;
  mutable std::size_t evict_ = 0;
};

}  // namespace hfshard
