#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/heap.h"

namespace hfshard {

/// One value for each leaf, with equal values stored once. A model has thousands of leaves and some
/// thirty shapes, so values that follow from a shape are few.
template <typename T>
class PerLeaf {
 public:
  std::size_t size() const noexcept { return index_.size(); }
  bool empty() const noexcept { return index_.empty(); }
  const T& operator[](std::size_t leaf) const noexcept { return values_[index_[leaf]]; }
  const T& back() const noexcept { return values_[index_.back()]; }
  /// Returns the heap that it holds (base/heap.h). `of` returns the heap of one value.
  template <typename Of>
  std::uint64_t heap_bytes(const Of& of) const {
    return hfshard::heap_bytes(values_, of) + hfshard::heap_bytes(index_);
  }
  void reserve(std::size_t leaves) { index_.reserve(leaves); }
  void clear() noexcept {
    values_.clear();
    index_.clear();
  }
  /// Appends the value for the next leaf. Looks for an equal one among the latest kLookBack
  /// distinct values.
  void push_back(const T& value) {
    constexpr std::size_t kLookBack = 64;
    for (std::size_t back = 0; back < values_.size() && back < kLookBack; ++back) {
      const std::size_t at = values_.size() - 1 - back;
      if (values_[at] == value) {
        index_.push_back(static_cast<std::uint32_t>(at));
        return;
      }
    }
    index_.push_back(static_cast<std::uint32_t>(values_.size()));
    values_.push_back(value);
  }

 private:
  std::vector<T> values_;
  std::vector<std::uint32_t> index_;
};

}  // namespace hfshard
