#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hfshard {

// Reading of zstd, one frame at a time. A frame is never decoded into a window: what a match
// copies is taken from the output itself, so that frames of every window size need the same memory.

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

/// Decodes one frame of unknown size. Throws: corrupt; limit (more than `most_bytes`).
std::vector<std::byte> decode_zstd(std::span<const std::byte> frame, std::uint64_t most_bytes);

}  // namespace hfshard
