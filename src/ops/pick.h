#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hfshard {

/// The largest stride with its own loop. The smallest is 2.
inline constexpr std::size_t kMaxStride = 4;

/// Copies `count` elements: the first of each group of `kStride`.
template <std::size_t kBytes, std::size_t kStride>
void pick(const std::byte* src, std::byte* dst, std::size_t count) noexcept {
  using Word = std::conditional_t<
      kBytes == 1, std::uint8_t,
      std::conditional_t<kBytes == 2, std::uint16_t,
                         std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;
  constexpr std::size_t kBlock = 64 / kBytes;  // constant, so that the loop is vectorized
  std::array<Word, kBlock * kStride> in;
  std::array<Word, kBlock> out;
  std::size_t done = 0;
  // A block reads kStride - 1 elements beyond its last, so another element must follow.
  for (; count - done > kBlock; done += kBlock) {
    std::memcpy(in.data(), src + done * kStride * kBytes, sizeof in);
    for (std::size_t i = 0; i < kBlock; ++i) out[i] = in[i * kStride];
    std::memcpy(dst + done * kBytes, out.data(), sizeof out);
  }
  for (; done < count; ++done) {
    std::memcpy(dst + done * kBytes, src + done * kStride * kBytes, kBytes);
  }
}

/// Copies them with a stride that isn't a constant.
template <std::size_t kBytes>
void pick(const std::byte* src, std::byte* dst, std::size_t count, std::size_t stride) noexcept {
  if (stride == 2) return pick<kBytes, 2>(src, dst, count);
  if (stride == 3) return pick<kBytes, 3>(src, dst, count);
  pick<kBytes, kMaxStride>(src, dst, count);
}

}  // namespace hfshard
