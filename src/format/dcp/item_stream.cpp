#include "format/dcp/item_stream.h"

#include <algorithm>

#include <fmt/format.h>

namespace hfshard::format::dcp {
namespace {

// Bytes of an item that are fetched at once: enough for a disk.
constexpr std::uint64_t kBlockBytes = std::uint64_t{512} << 10;
// The first fetch is just large enough for an archive's front, since callers often need no more. It
// holds a frame's header and first block. Source: facebook/zstd doc/zstd_compression_format.md,
// Blocks.
constexpr std::uint64_t kFirstBytes = ZstdStream::kHeaderBytes + 3 + (std::uint64_t{128} << 10);

std::uint64_t decoder_bytes() noexcept {
  return ZstdStream::scratch_bytes(ZstdStream::kUsualWindowBytes);
}

}  // namespace

std::uint64_t ItemStream::scratch_bytes() noexcept { return decoder_bytes() + kBlockBytes; }

ItemStream::ItemStream(const Source& file, ByteRange item, std::span<std::byte> scratch)
    : file_(file),
      next_(item.begin),
      end_(item.end),
      decoder_scratch_(scratch.first(decoder_bytes())),
      block_(scratch.subspan(decoder_bytes(), kBlockBytes)) {}

// Moves the rest of the input to the front, and fetches more.
void ItemStream::fill_input() {
  std::ranges::copy(input_, block_.begin());
  const std::size_t kept = input_.size();
  const std::uint64_t wanted = first_ ? kFirstBytes : block_.size() - kept;
  const auto fetched = block_.subspan(kept, std::min(wanted, end_ - next_));
  file_.read_at(next_, fetched);
  next_ += fetched.size();
  input_ = block_.first(kept + fetched.size());
  first_ = false;
}

// Begins the next frame. Returns false at the end of the item.
bool ItemStream::next_frame() {
  if (input_.size() < ZstdStream::kHeaderBytes && next_ < end_) fill_input();
  if (input_.empty()) return false;
  frame_ = ZstdStream(std::nullopt, ZstdStream::kUsualWindowBytes, decoder_scratch_);
  in_frame_ = true;
  return true;
}

std::size_t ItemStream::read_some(std::span<std::byte> out) {
  std::size_t made = 0;
  while (made < out.size()) {
    if (!in_frame_ && !next_frame()) break;
    if (input_.empty() && next_ < end_) fill_input();
    const bool last = input_.empty();
    const ZstdStream::Step step = frame_.step(input_, out.subspan(made));
    input_ = input_.subspan(step.used);
    made += step.made;
    in_frame_ = !frame_.done();
    if (in_frame_ && last && step.made == 0)
      throw Error(ErrorCode::corrupt, "a zstd frame passes the end of its item");
  }
  return made;
}

void ItemStream::read(std::span<std::byte> out) {
  if (read_some(out) == out.size()) return;
  throw Error(ErrorCode::corrupt, "the item ends before its archive");
}

}  // namespace hfshard::format::dcp
