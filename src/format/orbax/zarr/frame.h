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

/// The decoder of one compressed cell, whatever the compressor. Allocates nothing.
class Frame {
 public:
  struct Step {
    std::size_t used = 0;  ///< of the input
    std::size_t made = 0;  ///< of the output
  };

  Frame() = default;
  /// For a cell of `content_bytes`; `window_bytes` as ZstdStream has it, of which others take no
  /// notice. `scratch` has scratch_bytes of both.
  Frame(Compressor compressor, std::uint64_t content_bytes, std::uint64_t window_bytes,
        std::span<std::byte> scratch);
  static std::uint64_t scratch_bytes(Compressor compressor, std::uint64_t window_bytes) noexcept;

  /// Throws: as ZstdStream::step and InflateStream::step.
  Step step(std::span<const std::byte> input, std::span<std::byte> out);
  bool done() const noexcept;

 private:
  std::variant<ZstdStream, InflateStream> stream_;
};

}  // namespace hfshard::format::orbax::zarr
