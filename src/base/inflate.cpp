#include "base/inflate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <string_view>

#include <fmt/format.h>
// With it, zlib takes its input as constant.
#ifndef ZLIB_CONST
#define ZLIB_CONST  // NOLINT(readability-identifier-naming): zlib's own name
#endif
#include <zlib.h>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// zlib takes 40 KiB, builds of it for some processors somewhat more.
constexpr std::uint64_t kInflateScratchBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kMostInflated = 1032;
constexpr int kWindowBits = 15;
constexpr int kGzip = 16;  // added to the window: a stream of gzip instead of zlib
constexpr std::size_t kInflateAlignment = 64;

// zlib's state points back to its stream, so both stay where they are.
struct InflateState {
  z_stream stream;
  std::byte* free = nullptr;
  std::size_t free_bytes = 0;
};

voidpf take_scratch(voidpf opaque, uInt items, uInt size) {
  auto& state = *static_cast<InflateState*>(opaque);
  const std::uint64_t wanted = round_up(std::uint64_t{items} * size, kInflateAlignment);
  if (wanted > state.free_bytes) return nullptr;
  std::byte* out = state.free;
  state.free += wanted;
  state.free_bytes -= wanted;
  return out;
}

void keep_scratch(voidpf /*opaque*/, voidpf /*address*/) {}

uInt at_most(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

Error damaged_stream(std::string_view what) {
  return {ErrorCode::corrupt, fmt::format("a damaged deflate stream: {}", what)};
}

}  // namespace

std::uint64_t deflate_least_bytes(std::uint64_t content_bytes) noexcept {
  return content_bytes / kMostInflated;
}

std::uint64_t deflate_most_bytes(std::uint64_t content_bytes) noexcept {
  const auto most = checked_add(content_bytes, (content_bytes >> 3U) + (content_bytes >> 6U));
  return checked_add(most.value_or(UINT64_MAX), 4096).value_or(UINT64_MAX);
}

std::uint64_t InflateStream::scratch_bytes() noexcept { return kInflateScratchBytes; }

InflateStream::InflateStream(DeflateWrap wrap, std::uint64_t content_bytes,
                             std::span<std::byte> scratch)
    : content_bytes_(content_bytes) {
  HFSHARD_CHECK(scratch.size() >= kInflateScratchBytes);
  void* at = scratch.data();
  std::size_t left = scratch.size();
  HFSHARD_CHECK(std::align(kInflateAlignment, sizeof(InflateState), at, left) != nullptr);
  auto* state = new (at) InflateState{};
  const std::size_t own = round_up(sizeof(InflateState), kInflateAlignment);
  state->free = static_cast<std::byte*>(at) + own;
  state->free_bytes = left - own;
  state->stream.zalloc = take_scratch;
  state->stream.zfree = keep_scratch;
  state->stream.opaque = state;
  const int bits = wrap == DeflateWrap::gzip ? kWindowBits + kGzip : kWindowBits;
  HFSHARD_CHECK(inflateInit2_(&state->stream, bits, ZLIB_VERSION,
                              static_cast<int>(sizeof(z_stream))) == Z_OK);
  state_ = state;
}

InflateStream::Step InflateStream::step(std::span<const std::byte> input,
                                        std::span<std::byte> out) {
  z_stream& stream = static_cast<InflateState*>(state_)->stream;
  std::byte none{};
  stream.next_in = static_cast<const Bytef*>(static_cast<const void*>(input.data()));
  stream.avail_in = at_most(input.size());
  stream.next_out = static_cast<Bytef*>(static_cast<void*>(out.empty() ? &none : out.data()));
  stream.avail_out = at_most(out.size());
  const uInt given = stream.avail_in;
  const uInt room = stream.avail_out;
  const int code = input.empty() ? Z_BUF_ERROR : inflate(&stream, Z_NO_FLUSH);
  switch (code) {
    case Z_OK:
    case Z_BUF_ERROR:  // no way on with so much input and room
      break;
    case Z_STREAM_END:
      done_ = true;
      break;
    case Z_NEED_DICT:
      throw damaged_stream("it needs a dictionary");
    case Z_DATA_ERROR:
      throw damaged_stream(stream.msg != nullptr ? stream.msg : "its data aren't such a stream");
    default:
      HFSHARD_CHECK(code == Z_OK);  // of arguments or memory, which are ours
  }
  const Step made{given - stream.avail_in, room - stream.avail_out};
  made_ += made.made;
  if (done_ && made_ != content_bytes_) {
    throw Error(ErrorCode::corrupt,
                fmt::format("a deflate stream with {} bytes of content instead of {}", made_,
                            content_bytes_));
  }
  return made;
}

}  // namespace hfshard
