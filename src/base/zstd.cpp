#include "base/zstd.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include <fmt/format.h>
// For encoder and decoder without allocations, and output in one place: as zstd 1.4.5 has them.
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

// Returns the content size, if the frame's header states it. Throws unless `frame` is exactly one
// frame. libzstd's one-shot decoder would go on to a second frame, and skip skippable ones.
std::optional<std::uint64_t> check_frame(std::span<const std::byte> frame) {
  if (frame.size() < 4 || load_le<std::uint32_t>(frame.data()) != ZSTD_MAGICNUMBER) {
    throw damaged(fmt::format("{} bytes that aren't a zstd frame", frame.size()));
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
                                    ZSTD_DCtx* decoder) {
  const std::size_t size =
      ZSTD_decompressDCtx(decoder, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) == 0) return size;
  if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall) return std::nullopt;
  throw damaged(fmt::format("a damaged zstd frame: {}", ZSTD_getErrorName(size)));
}

Error other_content(std::uint64_t found, std::uint64_t wanted) {
  return damaged(fmt::format("a zstd frame with {} bytes of content instead of {}", found, wanted));
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

std::uint64_t ZstdStream::scratch_bytes(std::uint64_t window_bytes) noexcept {
  const std::uint64_t in_place = ZSTD_estimateDCtxSize() + kBlockBytes;
  return kAlignment + (window_bytes == 0 ? in_place : ZSTD_estimateDStreamSize(window_bytes));
}

ZstdStream::ZstdStream(std::optional<std::uint64_t> content_bytes, std::uint64_t window_bytes,
                       std::span<std::byte> scratch)
    : content_bytes_(content_bytes), window_bytes_(window_bytes) {
  HFSHARD_CHECK(content_bytes || window_bytes != 0);
  HFSHARD_CHECK(scratch.size() >= scratch_bytes(window_bytes));
  void* at = scratch.data();
  std::size_t left = scratch.size();
  HFSHARD_CHECK(std::align(kAlignment, ZSTD_estimateDCtxSize(), at, left) != nullptr);
  ZSTD_DCtx* decoder = ZSTD_initStaticDStream(at, left);
  HFSHARD_CHECK(decoder != nullptr);
  const auto set = [&](ZSTD_dParameter parameter, int value) {
    HFSHARD_CHECK(ZSTD_isError(ZSTD_DCtx_setParameter(decoder, parameter, value)) == 0);
  };
  set(ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);  // what is too large is said by check_header
  if (window_bytes == 0) set(ZSTD_d_stableOutBuffer, 1);
  decoder_ = decoder;
}

void ZstdStream::check_header(std::span<const std::byte> input) const {
  if (input.size() < 4 || load_le<std::uint32_t>(input.data()) != ZSTD_MAGICNUMBER)
    throw damaged("bytes that aren't a zstd frame");
  ZSTD_frameHeader header;
  const std::size_t wanted = ZSTD_getFrameHeader(&header, input.data(), input.size());
  if (ZSTD_isError(wanted) != 0) {
    throw damaged(fmt::format("a damaged zstd frame: {}", ZSTD_getErrorName(wanted)));
  }
  if (wanted != 0) throw damaged("a zstd frame that ends within its header");
  const bool stated = header.frameContentSize != ZSTD_CONTENTSIZE_UNKNOWN;
  if (stated && content_bytes_ && header.frameContentSize != *content_bytes_)
    throw other_content(header.frameContentSize, *content_bytes_);
  const std::uint64_t window =
      stated ? std::min<std::uint64_t>(header.windowSize, header.frameContentSize)
             : std::uint64_t{header.windowSize};
  const std::uint64_t most =
      window_bytes_ != 0 ? window_bytes_ : std::uint64_t{1} << ZSTD_WINDOWLOG_MAX;
  if (window <= most) return;
  throw Error(ErrorCode::limit,
              fmt::format("a zstd frame with a window of {} bytes; hfshard decodes at most {}",
                          window, most));
}

ZstdStream::Step ZstdStream::step(std::span<const std::byte> input, std::span<std::byte> out) {
  if (!started_) {
    check_header(input);
    begin_ = out.data();
    started_ = true;
  }
  ZSTD_inBuffer in{input.data(), input.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  if (window_bytes_ == 0) {
    HFSHARD_CHECK(out.empty() || out.data() == begin_ + made_);
    to = {begin_, *content_bytes_, made_};
  }
  const std::size_t before = to.pos;
  const std::size_t left = ZSTD_decompressStream(static_cast<ZSTD_DCtx*>(decoder_), &to, &in);
  if (ZSTD_isError(left) != 0) {
    if (content_bytes_ && ZSTD_getErrorCode(left) == ZSTD_error_dstSize_tooSmall) {
      throw damaged(fmt::format("a zstd frame of more than {} bytes of content", *content_bytes_));
    }
    throw damaged(fmt::format("a damaged zstd frame: {}", ZSTD_getErrorName(left)));
  }
  const Step out_step{in.pos, to.pos - before};
  made_ += out_step.made;
  done_ = left == 0;
  if (done_ && content_bytes_ && made_ != *content_bytes_)
    throw other_content(made_, *content_bytes_);
  return out_step;
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
            fmt::format("a zstd frame of {} bytes of content; hfshard reads at most {}", content,
                        most_bytes)};
  };
  if (stated && *stated > most_bytes) throw too_long(std::to_string(*stated));
  if (stated && zstd_least_bytes(*stated) > frame.size()) {
    throw damaged(
        fmt::format("a zstd frame of {} bytes states {} bytes of content", frame.size(), *stated));
  }
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decoder(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  if (!decoder) throw std::bad_alloc();
  std::vector<std::byte> out(stated.value_or(
      std::min(most_bytes, std::max<std::uint64_t>(kFirstGuessBytes, 8 * frame.size()))));
  while (true) {
    const auto size = decode(frame, out, decoder.get());
    if (size && (!stated || *size == *stated)) {
      out.resize(*size);
      return out;
    }
    if (stated) throw damaged("a zstd frame whose content has another length than it states");
    if (out.size() == most_bytes) throw too_long("more");
    const std::size_t next = std::min<std::uint64_t>(most_bytes, 2 * out.size());
    out.clear();  // so that nothing is copied
    out.resize(next);
  }
}

}  // namespace hfshard
