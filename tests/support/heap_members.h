#pragma once

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "base/heap.h"

namespace hfshard {

/// Checks that heap_bytes of T counts each member. `members` set a text in one member each.
template <typename T, std::size_t n>
void expect_heap_of_members(void (*const (&members)[n])(T&, const std::string&)) {
  const std::string wide(100, 'w');
  const auto bytes = [&](std::size_t member, const std::string& text) {
    T value;
    members[member](value, text);
    return heap_bytes(value);
  };
  for (std::size_t i = 0; i < n; ++i)
    EXPECT_EQ(bytes(i, wide), bytes(i, "") + heap_bytes(wide)) << i;
  EXPECT_EQ(heap_bytes(T()), 0U);
}

}  // namespace hfshard
