#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hfshard {

/// A 128-bit number that adds modulo 2^128: the sum of block hashes of a tensor (design.md 7,
/// Digests).
struct Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  Digest128& operator+=(const Digest128& other) noexcept;
  friend bool operator==(const Digest128&, const Digest128&) = default;
};
/// 32 lower-case hex digits, high half first.
std::string to_hex(const Digest128& digest);
/// Throws: bad_input if not 32 hex digits.
Digest128 digest_from_hex(std::string_view hex);

/// XXH3-128 of the bytes with the block's index as seed.
Digest128 hash_block(std::uint64_t block_index, std::span<const std::byte> bytes) noexcept;

/// A streaming digest of that many bytes.
template <std::size_t kBytes>
class ShaDigest {
 public:
  ShaDigest();
  ~ShaDigest();
  ShaDigest(ShaDigest&&) noexcept;
  ShaDigest& operator=(ShaDigest&&) noexcept;
  ShaDigest& update(std::span<const std::byte> bytes);
  ShaDigest& update(std::string_view text);
  /// The object may not be used afterwards.
  std::array<std::byte, kBytes> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
extern template class ShaDigest<20>;
extern template class ShaDigest<32>;
using Sha1 = ShaDigest<20>;  ///< names objects of git; protects nothing
using Sha256 = ShaDigest<32>;
std::string to_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace hfshard
