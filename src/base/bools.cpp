#include "base/bools.h"

#include <algorithm>

#include <fmt/format.h>

#include "hfshard/error.h"

namespace hfshard {

void check_bools(std::span<const std::byte> elements) {
  const auto other = std::ranges::find_if(elements, [](std::byte b) { return b > std::byte{1}; });
  if (other == elements.end()) return;
  throw Error(ErrorCode::corrupt,
              fmt::format("a bool element is the byte {}, which is neither 0 nor 1",
                          static_cast<unsigned>(*other)))
      .hint("pass --exclude to leave the array out");
}

}  // namespace hfshard
