#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hfshard {

// Decodes and encodes zstd, one frame at a time. If the whole output is in one place, matches copy
// from it, so all window sizes need the same memory. Otherwise the decoder keeps a window.

/// Return the longest and shortest frame that an encoder makes from so many bytes.
/// Source: facebook/zstd lib/zstd.h, ZSTD_COMPRESSBOUND; doc/zstd_compression_format.md, Blocks.
std::uint64_t zstd_most_bytes(std::uint64_t content_bytes) noexcept;
std::uint64_t zstd_least_bytes(std::uint64_t content_bytes) noexcept;

/// Decodes one frame in steps. Allocates nothing; copies are the same decoder.
class ZstdStream {
 public:
  /// The first step's input must have so much of the frame, or all of it: its header.
  static constexpr std::size_t kHeaderBytes = 18;
  /// The largest window that encoders take up to level 19, unless they are asked for more.
  /// Source: facebook/zstd lib/compress/clevels.h, ZSTD_defaultCParameters.
  static constexpr std::uint64_t kUsualWindowBytes = std::uint64_t{8} << 20;
  struct Step {
    std::size_t used = 0;  ///< of the input
    std::size_t made = 0;  ///< of the output
  };

  ZstdStream() = default;
  /// Prepares for a frame with exactly `content_bytes`, or with any content. If `window_bytes` is
  /// 0, `content_bytes` is required, and the outputs of all steps must be contiguous in memory.
  /// Otherwise outputs can be anywhere, and frames can have a window up to `window_bytes`.
  /// `scratch` has scratch_bytes(window_bytes).
  ZstdStream(std::optional<std::uint64_t> content_bytes, std::uint64_t window_bytes,
             std::span<std::byte> scratch);
  /// About 290 KiB; with a window, that and 260 KiB more.
  static std::uint64_t scratch_bytes(std::uint64_t window_bytes) noexcept;

  /// Decodes until the input is used or the output is full. The frame's header need not state the
  /// content size. Throws: corrupt (another content size than `content_bytes` or than the header
  /// states, a wrong checksum), limit (a larger window).
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

/// Returns the library's release, "1.5.4". The bytes of a frame depend on it, the content and the
/// level.
std::string_view zstd_version() noexcept;

/// Returns the scratch memory for encode_zstd: 0.6 MiB at level 1, 641 MiB at level 22 for 64 MiB.
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
