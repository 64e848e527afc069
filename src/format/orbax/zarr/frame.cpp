#include "format/orbax/zarr/frame.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {

Frame::Frame(Compressor compressor, std::uint64_t content_bytes, std::uint64_t window_bytes,
             std::span<std::byte> scratch) {
  HFSHARD_CHECK(compressor != Compressor::none);
  if (compressor == Compressor::zstd) {
    stream_ = ZstdStream(content_bytes, window_bytes, scratch);
  } else {
    const auto wrap = compressor == Compressor::gzip ? DeflateWrap::gzip : DeflateWrap::zlib;
    stream_ = InflateStream(wrap, content_bytes, scratch);
  }
}

std::uint64_t Frame::scratch_bytes(Compressor compressor, std::uint64_t window_bytes) noexcept {
  if (compressor == Compressor::none) return 0;
  return compressor == Compressor::zstd ? ZstdStream::scratch_bytes(window_bytes)
                                        : InflateStream::scratch_bytes();
}

Frame::Step Frame::step(std::span<const std::byte> input, std::span<std::byte> out) {
  return std::visit(
      [&](auto& stream) {
        const auto [used, made] = stream.step(input, out);
        return Step{used, made};
      },
      stream_);
}

bool Frame::done() const noexcept {
  const auto* zstd = std::get_if<ZstdStream>(&stream_);
  return zstd != nullptr ? zstd->done() : std::get_if<InflateStream>(&stream_)->done();
}

}  // namespace hfshard::format::orbax::zarr
