#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hfshard {

// zstd, one frame at a time. A frame is never decoded into a window: what a match copies is taken
// from the output itself, so that frames of every window size need the same memory.

/// Longest and shortest frame that an encoder makes of so many bytes.
/// Source: facebook/zstd lib/zstd.h, ZSTD_COMPRESSBOUND; doc/zstd_compression_format.md, Blocks.
std::uint64_t zstd_most_bytes(std::uint64_t content_bytes) noexcept;
std::uint64_t zstd_least_bytes(std::uint64_t content_bytes) noexcept;

/// What decode_zstd needs beside input and output: about 160 KiB.
std::uint64_t zstd_scratch_bytes() noexcept;

/// Decodes into `out`. Allocates nothing; `scratch` has zstd_scratch_bytes(). The content size in
/// the frame's header may be absent. Throws: corrupt unless `frame` is exactly one whole frame of
/// exactly out.size() bytes, with the right checksum if it has one.
void decode_zstd(std::span<const std::byte> frame, std::span<std::byte> out,
                 std::span<std::byte> scratch);

/// Levels that encode_zstd knows.
/// Source: facebook/zstd lib/compress/clevels.h, ZSTD_MAX_CLEVEL. Negative ones are left out.
inline constexpr int kMostZstdLevel = 22;

/// The library's release, "1.5.4": what a frame's bytes depend on beside content and level.
std::string_view zstd_version() noexcept;

/// What encode_zstd needs beside content and frame: 0.6 MiB at level 1, 641 MiB at 22 of 64 MiB.
std::uint64_t zstd_encoder_bytes(int level, std::uint64_t content_bytes) noexcept;

/// Encodes `content` as one frame that states its content size and has no checksum. Allocates
/// nothing; `frame` has zstd_most_bytes and `scratch` zstd_encoder_bytes of it. Returns how much of
/// `frame` was used.
std::uint64_t encode_zstd(std::span<const std::byte> content, int level, std::span<std::byte> frame,
                          std::span<std::byte> scratch);

/// Decodes one frame of unknown size. Throws: corrupt; limit (more than `most_bytes`).
std::vector<std::byte> decode_zstd(std::span<const std::byte> frame, std::uint64_t most_bytes);

}  // namespace hfshard
