#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/inflate.h"
#include "base/zstd.h"
#include "format/orbax/zarr/array.h"

namespace hfshard::format::orbax::zarr {

/// The decoder of one compressed cell, for any compressor. Allocates nothing.
class Frame {
 public:
  struct Step {
    std::size_t used = 0;  ///< of the input
    std::size_t made = 0;  ///< of the output
  };

  Frame() = default;
  /// `content_bytes` is the cell's size. `window_bytes` is for ZstdStream; other decoders ignore
  /// it. `scratch` has scratch_bytes of both.
  Frame(Compressor compressor, std::uint64_t content_bytes, std::uint64_t window_bytes,
        std::span<std::byte> scratch);
  static std::uint64_t scratch_bytes(Compressor compressor, std::uint64_t window_bytes) noexcept;

  /// Decodes some bytes. Throws: as ZstdStream::step and InflateStream::step.
  Step step(std::span<const std::byte> input, std::span<std::byte> out);
  bool done() const noexcept;

 private:
  std::variant<ZstdStream, InflateStream> stream_;
};

}  // namespace hfshard::format::orbax::zarr
