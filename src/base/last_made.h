#pragma once

#include <mutex>
#include <optional>
#include <utility>

namespace hfshard {

/// Keeps the last value that was made, for callers that ask for the same one several times.
/// Thread-safe; values are copied out.
template <typename Key, typename Value>
class LastMade {
 public:
  /// Returns the kept value of this key, or else `make()`, which it then keeps. Throws: as `make`,
  /// and keeps what it has.
  template <typename Make>
  Value get(const Key& key, const Make& make) {
    const std::scoped_lock lock(mutex_);
    if (!kept_ || kept_->first != key) kept_.emplace(key, make());
    return kept_->second;
  }

 private:
  std::mutex mutex_;
  std::optional<std::pair<Key, Value>> kept_;
};

}  // namespace hfshard
