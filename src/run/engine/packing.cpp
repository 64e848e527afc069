#include "run/engine/packing.h"

#include <algorithm>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::vector<std::uint32_t> known_lengths(const Layout& layout, const JournalState& done) {
  std::vector<std::uint32_t> out(layout.totals().chunks, 0);
  for (const JournalRecord& record : done.done) {
    const std::uint64_t first = layout.chunks_before(layout.unit_at(record.begin));
    const std::uint64_t end = layout.chunks_before(layout.unit_at(record.end));
    HFSHARD_CHECK(record.lengths.size() == end - first);  // the record has this plan's id
    std::ranges::copy(record.lengths, out.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return out;
}

// Returns the bytes of stored chunks in a file, with gaps.
std::uint64_t aligned_sum(std::span<const std::uint32_t> lengths, const Limits& limits) {
  std::uint64_t out = 0;
  for (const std::uint32_t length : lengths)
    out += round_up(std::uint64_t{length}, limits.alignment_bytes);
  return out;
}

std::uint64_t first_chunk_of_file(const Layout& layout, std::uint32_t file) {
  return layout.chunks_before(layout.unit_at(layout.file_begin()[file]));
}

}  // namespace

std::uint64_t stored_bytes(const Layout& layout, const JournalState& done) {
  if (!layout.is_packed()) return done.done_bytes();
  std::uint64_t out = 0;
  for (const JournalRecord& record : done.done) out += aligned_sum(record.lengths, layout.limits());
  return out;
}

Packing::Packing(const Layout& layout, const JournalState& done)
    : layout_(layout), lengths_(known_lengths(layout, done)) {}

std::uint64_t Packing::place(std::uint64_t address, std::span<const std::uint32_t> lengths) {
  const std::uint64_t chunk = layout_.chunks_before(layout_.unit_at(address));
  if (const std::uint64_t first = first_chunk_of_file(layout_, layout_.file_at(address));
      next_ <= first) {
    next_ = first;
    offset_ = layout_.files().begin_bytes(layout_.limits().alignment_bytes);
  }
  const auto walk = [&](std::uint64_t to) {
    const auto passed = std::span(lengths_).subspan(next_, to - next_);
    HFSHARD_CHECK(std::ranges::find(passed, 0U) == passed.end());
    offset_ += aligned_sum(passed, layout_.limits());
    next_ = to;
  };
  walk(chunk);
  const std::uint64_t offset = offset_;
  std::ranges::copy(lengths, lengths_.begin() + static_cast<std::ptrdiff_t>(chunk));
  walk(chunk + lengths.size());
  return offset;
}

PackedPlacements::PackedPlacements(const Plan& plan, const JournalState& done)
    : plan_(plan), lengths_(known_lengths(plan, done)) {
  offsets_.reserve(lengths_.size());
  for (std::uint32_t file = 0; file < plan.file_count(); ++file) {
    first_chunk_.push_back(first_chunk_of_file(plan, file));
    const std::uint64_t end = first_chunk_of_file(plan, file + 1);
    std::uint64_t offset = plan.files().begin_bytes(plan.limits().alignment_bytes);
    for (std::uint64_t chunk = first_chunk_.back(); chunk < end; ++chunk) {
      offsets_.push_back(offset);
      offset += round_up(std::uint64_t{lengths_[chunk]}, plan.limits().alignment_bytes);
    }
    total_bytes_ += offset;
  }
}

Place PackedPlacements::place(std::uint32_t leaf, const Shape& chunk) const {
  const std::uint64_t number = plan_.chunks_before(leaf, chunk);
  const auto after = std::ranges::upper_bound(first_chunk_, number);
  return {static_cast<std::uint32_t>(after - first_chunk_.begin() - 1), offsets_[number],
          lengths_[number]};
}

std::uint64_t packing_heap_bytes(const Layout& layout) noexcept {
  // While publishing: lengths as found and placed, records as text and parsed, lengths and offsets
  // of the index.
  constexpr std::uint64_t kPerChunk = 2 * 4 + 2 * 4 + 4 + 8;
  return layout.is_packed() ? layout.totals().chunks * kPerChunk : 0;
}

}  // namespace hfshard
