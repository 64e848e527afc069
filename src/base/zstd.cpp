#include "base/zstd.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
// For the encoder and decoder without allocations: functions that are unchanged since zstd 1.3.
#define ZSTD_STATIC_LINKING_ONLY  // NOLINT(readability-identifier-naming): zstd's own name
#include <zstd.h>
#include <zstd_errors.h>

#include "base/checked.h"
#include "base/coding.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kLeastBlockBytes = 4;  // header and one byte that is repeated
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kFirstGuessBytes = std::uint64_t{1} << 20;

Error damaged(std::string sentence) { return {ErrorCode::corrupt, std::move(sentence)}; }

// Of what a frame's header says, the content size if it is there. Throws unless `frame` is one
// frame from end to end: libzstd's one-shot decoder would go on to a second one, and read over
// skippable ones.
std::optional<std::uint64_t> check_frame(std::span<const std::byte> frame) {
  if (frame.size() < 4 || load_le<std::uint32_t>(frame.data()) != ZSTD_MAGICNUMBER) {
    throw damaged(fmt::format("{} bytes that are no zstd frame", frame.size()));
  }
  const std::size_t size = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) {
    throw damaged(ZSTD_getErrorCode(size) == ZSTD_error_srcSize_wrong
                      ? fmt::format("a zstd frame passes the end of its {} bytes", frame.size())
                      : fmt::format("a damaged zstd frame: {}", ZSTD_getErrorName(size)));
  }
  if (size != frame.size()) {
    throw damaged(fmt::format("a zstd frame ends {} bytes before the end of its {} bytes",
                              frame.size() - size, frame.size()));
  }
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) throw damaged("a damaged header of a zstd frame");
  if (content == ZSTD_CONTENTSIZE_UNKNOWN) return std::nullopt;
  return content;
}

// Decodes a checked frame; nothing if it holds more than out.size() bytes.
std::optional<std::uint64_t> decode(std::span<const std::byte> frame, std::span<std::byte> out,
                                    std::span<std::byte> scratch) {
  void* at = scratch.data();
  std::size_t left = scratch.size();
  HFSHARD_CHECK(std::align(kAlignment, ZSTD_estimateDCtxSize(), at, left) != nullptr);
  ZSTD_DCtx* decoder = ZSTD_initStaticDCtx(at, left);
  HFSHARD_CHECK(decoder != nullptr);
  const std::size_t size =
      ZSTD_decompressDCtx(decoder, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) == 0) return size;
  if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall) return std::nullopt;
  throw damaged(fmt::format("a damaged zstd frame: {}", ZSTD_getErrorName(size)));
}

}  // namespace

std::uint64_t zstd_most_bytes(std::uint64_t content_bytes) noexcept {
  const std::uint64_t small =
      content_bytes < kBlockBytes ? (kBlockBytes - content_bytes) >> 11U : 0;
  const auto most = checked_add(content_bytes, (content_bytes >> 8U) + small);
  return most.value_or(UINT64_MAX);
}

std::uint64_t zstd_least_bytes(std::uint64_t content_bytes) noexcept {
  return content_bytes / kBlockBytes * kLeastBlockBytes;
}

std::uint64_t zstd_scratch_bytes() noexcept { return ZSTD_estimateDCtxSize() + kAlignment; }

void decode_zstd(std::span<const std::byte> frame, std::span<std::byte> out,
                 std::span<std::byte> scratch) {
  const auto stated = check_frame(frame);
  if (stated && *stated != out.size()) {
    throw damaged(fmt::format("a zstd frame of {} bytes of content, where {} are wanted", *stated,
                              out.size()));
  }
  const auto size = decode(frame, out, scratch);
  if (size == out.size()) return;
  throw damaged(size ? fmt::format("a zstd frame of {} bytes of content, where {} are wanted",
                                   *size, out.size())
                     : fmt::format("a zstd frame of more than {} bytes of content", out.size()));
}

std::string_view zstd_version() noexcept { return ZSTD_versionString(); }

std::uint64_t zstd_encoder_bytes(int level, std::uint64_t content_bytes) noexcept {
  const ZSTD_compressionParameters form = ZSTD_getCParams(level, content_bytes, 0);
  return ZSTD_estimateCCtxSize_usingCParams(form) + kAlignment;
}

std::uint64_t encode_zstd(std::span<const std::byte> content, int level, std::span<std::byte> frame,
                          std::span<std::byte> scratch) {
  HFSHARD_CHECK(frame.size() >= zstd_most_bytes(content.size()));
  void* at = scratch.data();
  std::size_t left = scratch.size();
  HFSHARD_CHECK(std::align(kAlignment, 1, at, left) != nullptr);
  ZSTD_CCtx* encoder = ZSTD_initStaticCCtx(at, left);
  HFSHARD_CHECK(encoder != nullptr);
  // A static encoder starts without the defaults, one of which is to state the content size.
  HFSHARD_CHECK(ZSTD_isError(ZSTD_CCtx_reset(encoder, ZSTD_reset_session_and_parameters)) == 0);
  HFSHARD_CHECK(ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_compressionLevel, level)) == 0);
  // The frame's room is the same on every call: what remains of it may steer the encoder.
  const std::size_t size = ZSTD_compress2(encoder, frame.data(), zstd_most_bytes(content.size()),
                                          content.data(), content.size());
  HFSHARD_CHECK(ZSTD_isError(size) == 0);  // room and scratch are as the library asks for
  return size;
}

std::vector<std::byte> decode_zstd(std::span<const std::byte> frame, std::uint64_t most_bytes) {
  const auto stated = check_frame(frame);
  const auto too_long = [&](std::string_view content) -> Error {
    return {ErrorCode::limit,
            fmt::format("a zstd frame of {} bytes of content; at most {} are read", content,
                        most_bytes)};
  };
  if (stated && *stated > most_bytes) throw too_long(std::to_string(*stated));
  if (stated && zstd_least_bytes(*stated) > frame.size()) {
    throw damaged(
        fmt::format("a zstd frame of {} bytes states {} bytes of content", frame.size(), *stated));
  }
  std::vector<std::byte> scratch(zstd_scratch_bytes());
  std::vector<std::byte> out(stated.value_or(
      std::min(most_bytes, std::max<std::uint64_t>(kFirstGuessBytes, 8 * frame.size()))));
  while (true) {
    const auto size = decode(frame, out, scratch);
    if (size && (!stated || *size == *stated)) {
      out.resize(*size);
      return out;
    }
    if (stated) throw damaged("a zstd frame whose content is not as long as it states");
    if (out.size() == most_bytes) throw too_long("more");
    const std::size_t next = std::min<std::uint64_t>(most_bytes, 2 * out.size());
    out.clear();  // so that nothing is copied
    out.resize(next);
  }
}

}  // namespace hfshard
