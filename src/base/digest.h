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

/// Streaming SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  /// 32 bytes. The object may not be used afterwards.
  std::array<std::byte, 32> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
std::string to_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace hfshard
