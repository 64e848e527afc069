#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hfshard {

// zstd, one frame at a time. Where the output is in one place, what a match copies is taken from
// it, so that frames of every window size need the same memory; else there is a window.

/// Longest and shortest frame that an encoder makes of so many bytes.
/// Source: facebook/zstd lib/zstd.h, ZSTD_COMPRESSBOUND; doc/zstd_compression_format.md, Blocks.
std::uint64_t zstd_most_bytes(std::uint64_t content_bytes) noexcept;
std::uint64_t zstd_least_bytes(std::uint64_t content_bytes) noexcept;

/// Decodes one frame in steps. Allocates nothing; copies are the same decoder.
class ZstdStream {
 public:
  /// So much of a frame, or all of it, must be in the first step's input: its header.
  static constexpr std::size_t kHeaderBytes = 18;
  /// The largest window that encoders take up to level 19, unless they are asked for more.
  /// Source: facebook/zstd lib/compress/clevels.h, ZSTD_defaultCParameters.
  static constexpr std::uint64_t kUsualWindowBytes = std::uint64_t{8} << 20;
  struct Step {
    std::size_t used = 0;  ///< of the input
    std::size_t made = 0;  ///< of the output
  };

  ZstdStream() = default;
  /// For a frame of exactly `content_bytes`, or of any content. With a window of 0 the outputs of
  /// all steps follow each other in memory, and are everything from the first on, which takes a
  /// known content; else frames with a window up to this are decoded to anywhere. `scratch` has
  /// scratch_bytes(window_bytes).
  ZstdStream(std::optional<std::uint64_t> content_bytes, std::uint64_t window_bytes,
             std::span<std::byte> scratch);
  /// About 290 KiB; with a window, that and 260 KiB more.
  static std::uint64_t scratch_bytes(std::uint64_t window_bytes) noexcept;

  /// Decodes until the input is used or the output is full. The content size in the frame's header
  /// may be absent. Throws: corrupt unless this is a frame of exactly content_bytes, and of what it
  /// states itself, with the right checksum if it has one; limit (a larger window).
  Step step(std::span<const std::byte> input, std::span<std::byte> out);
  /// Whether the frame has ended.
  bool done() const noexcept { return done_; }

 private:
  void check_header(std::span<const std::byte> input) const;
  void* decoder_ = nullptr;
  std::byte* begin_ = nullptr;
  std::optional<std::uint64_t> content_bytes_;
  std::uint64_t window_bytes_ = 0;
  std::uint64_t made_ = 0;
  bool started_ = false;
  bool done_ = false;
};

/// Levels that encode_zstd knows.
/// Source: facebook/zstd lib/compress/clevels.h, ZSTD_MAX_CLEVEL. Negative ones are left out.
inline constexpr int kMaxZstdLevel = 22;

/// The library's release, "1.5.4": what a frame's bytes depend on beside content and level.
std::string_view zstd_version() noexcept;

/// What encode_zstd needs beside content and frame: 0.6 MiB at level 1, 641 MiB at 22 of 64 MiB.
std::uint64_t zstd_encoder_bytes(int level, std::uint64_t content_bytes) noexcept;

/// Encodes `content` as one frame that states its content size and has no checksum. Allocates
/// nothing; `frame` has zstd_most_bytes and `scratch` zstd_encoder_bytes of it. Returns how much of
/// `frame` was used.
std::uint64_t encode_zstd(std::span<const std::byte> content, int level, std::span<std::byte> frame,
                          std::span<std::byte> scratch);

/// Decodes one frame of unknown size. Throws: corrupt unless `frame` is exactly one whole frame;
/// limit (more than `most_bytes`).
std::vector<std::byte> decode_zstd(std::span<const std::byte> frame, std::uint64_t most_bytes);

}  // namespace hfshard
