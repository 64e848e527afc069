#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hfshard {

/// The container around a deflated stream.
enum class DeflateWrap : std::uint8_t { gzip, zlib };

/// Bounds for the stream of any encoder: the shortest one for so many bytes, and one that is longer
/// than those of libraries.
/// Source: RFC 1951, 3.2.5: 258 bytes of content in two bits; madler/zlib deflate.c, deflateBound.
std::uint64_t deflate_least_bytes(std::uint64_t content_bytes) noexcept;
std::uint64_t deflate_most_bytes(std::uint64_t content_bytes) noexcept;

/// Decodes one deflated stream in steps of any length. Allocates nothing; copies are the same
/// decoder.
class InflateStream {
 public:
  struct Step {
    std::size_t used = 0;  ///< of the input
    std::size_t made = 0;  ///< of the output
  };

  InflateStream() = default;
  /// For a stream of exactly `content_bytes`. `scratch` has scratch_bytes() and lives as long as
  /// this.
  InflateStream(DeflateWrap wrap, std::uint64_t content_bytes, std::span<std::byte> scratch);
  /// The decoder's state, and its window of 32 KiB.
  static std::uint64_t scratch_bytes() noexcept;

  /// Decodes until the input is used or the output is full. Throws: corrupt unless this is a stream
  /// of exactly content_bytes with the right checksum.
  Step step(std::span<const std::byte> input, std::span<std::byte> out);
  /// Whether the stream has ended.
  bool done() const noexcept { return done_; }

 private:
  void* state_ = nullptr;
  std::uint64_t content_bytes_ = 0;
  std::uint64_t made_ = 0;
  bool done_ = false;
};

}  // namespace hfshard
