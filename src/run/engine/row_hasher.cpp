#include "run/engine/row_hasher.h"

#include <algorithm>
#include <array>

#include "ops/move.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool whole_row(const IndexMap& part, std::uint64_t row) {
  const IndexMap merged = normalize(part);
  if (row == 1) return part.count() == 1;
  return merged.digits.size() == 1 && merged.digits[0].extent == row &&
         merged.digits[0].src_step == 1;
}

// Maps the row's elements to a packed row in source order.
IndexMap gather_map(const IndexMap& part, std::uint64_t band_begin) {
  IndexMap out;
  out.src_base = part.src_base - band_begin;
  std::array<Digit, DigitList::kMax> digits;
  std::size_t count = 0;
  for (const Digit& digit : part.digits) {
    if (digit.extent > 1) digits[count++] = digit;
  }
  std::stable_sort(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const Digit& a, const Digit& b) { return a.src_step < b.src_step; });
  std::uint64_t packed = 1;
  for (std::size_t k = 0; k < count; ++k) {
    digits[k].dst_step = static_cast<std::int64_t>(packed);
    packed *= digits[k].extent;
  }
  while (count > 0) out.digits.push_back(digits[--count]);
  return out;
}

}  // namespace

RowHasher::RowHasher(const Transfer& transfer, DType target_dtype)
    : row_(row_length(transfer)),
      element_bytes_(size_bits(target_dtype) / 8),
      one_d_(transfer.source_shape.rank() < 2) {}

void RowHasher::add_block(std::uint64_t block, std::span<const std::byte> row,
                          Digest128& sum) const {
  if (!one_d_) {
    sum += hash_block(block, row);
    return;
  }
  for (std::size_t at = 0; at < row.size(); at += kDigestRunBytes) {
    const std::size_t size = std::min<std::size_t>(kDigestRunBytes, row.size() - at);
    sum += hash_block(block + at / element_bytes_, row.subspan(at, size));
  }
}

bool RowHasher::takes_whole_rows(const IndexMap& map) const {
  RowCursor rows(map, row_);
  const IndexMap* part = rows.next();
  return part != nullptr && whole_row(*part, row_);
}

void RowHasher::add(const IndexMap& map, std::uint64_t band_begin, std::span<const std::byte> bytes,
                    std::span<std::byte> row_scratch, Digest128& sum, RowCursor* stored) const {
  RowCursor rows(map, row_);
  bool first = true;
  bool whole = false;
  while (const IndexMap* part = rows.next()) {
    if (first) whole = whole_row(*part, row_);
    first = false;
    const std::uint64_t at = (part->src_base - band_begin) * element_bytes_;
    const std::uint64_t begin = stored == nullptr ? part->src_base : stored->next()->src_base;
    if (whole) {
      add_block(begin, bytes.subspan(at, row_ * element_bytes_), sum);
      continue;
    }
    const std::uint64_t size = part->count() * element_bytes_;
    HFSHARD_CHECK(size <= row_scratch.size());
    move_elements(gather_map(*part, band_begin), element_bytes_, bytes, row_scratch.first(size));
    add_block(begin, row_scratch.first(size), sum);
  }
}

}  // namespace hfshard
