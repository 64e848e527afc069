#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/json.h"

namespace hfshard {

// Computes the heap that values hold from their members. The process's own figures cover everything
// in it, and a process can have two runs.

/// Returns the bytes that malloc takes for a block: it adds one word, rounds up to two words, and
/// takes at least four.
inline std::uint64_t heap_block(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kWord = sizeof(void*);
  return bytes == 0 ? 0 : std::max(4 * kWord, round_up(bytes + kWord, 2 * kWord));
}

/// Bytes of a node of a map or set: the value, three pointers and a color.
template <typename T>
constexpr std::uint64_t kTreeNode = sizeof(T) + 4 * sizeof(void*);

inline std::uint64_t heap_bytes(const std::string& text) noexcept {
  const bool is_inline = text.capacity() <= std::string().capacity();
  return is_inline ? 0 : heap_block(text.capacity() + 1);
}

inline std::uint64_t heap_bytes(const std::vector<bool>& bits) noexcept {
  return heap_block(bits.capacity() / 8);
}

template <typename T>
std::uint64_t heap_bytes(const std::vector<T>& items) {
  std::uint64_t out = heap_block(items.capacity() * sizeof(T));
  if constexpr (!std::is_trivially_copyable_v<T>) {
    for (const T& item : items) out += heap_bytes(item);
  }
  return out;
}

/// The same for items of which `of` tells what each holds.
template <typename T, typename Of>
std::uint64_t heap_bytes(const std::vector<T>& items, const Of& of) {
  std::uint64_t out = heap_block(items.capacity() * sizeof(T));
  for (const T& item : items) out += of(item);
  return out;
}

template <typename V, typename C>
std::uint64_t heap_bytes(const std::map<std::string, V, C>& items) {
  std::uint64_t out = 0;
  for (const auto& [key, value] : items)
    out += heap_block(kTreeNode<std::pair<const std::string, V>>) + heap_bytes(key) +
           heap_bytes(value);
  return out;
}

}  // namespace hfshard
