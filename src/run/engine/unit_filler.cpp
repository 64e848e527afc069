#include "run/engine/unit_filler.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/bools.h"
#include "base/coding.h"
#include "ops/decode.h"
#include "ops/value.h"
#include "plan/layout/band.h"
#include "run/engine/cells.h"
#include "run/engine/row_hasher.h"
#include "run/engine/stored_band.h"
#include "run/engine/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns whether part of a unit is outside of the leaf. Most units of a ragged grid are inside.
bool has_edges(const std::vector<Cell>& cells) {
  return std::ranges::any_of(
      cells, [](const Cell& cell) { return !(cell.full.extent == cell.clipped.extent); });
}

// Reads the bands of one source tensor for one leaf, and converts them to the leaf's values.
class BandReader {
 public:
  BandReader(const Layout& layout, const SourceReads& sources, StageMeter* meter,
             const UnitPart& part, DType leaf_dtype, std::span<std::byte> scratch)
      : sources_(sources),
        meter_(meter),
        transfer_(layout.model().transfers[part.transfer]),
        info_(layout.catalog().tensors[transfer_.sources[part.source]]),
        place_(layout.place_of(transfer_.sources[part.source])),
        leaf_dtype_(leaf_dtype),
        in_bits_(size_bits(transfer_.source_dtype)),
        form_(band_form(transfer_, leaf_dtype, layout.limits())) {
    if (const Decode* const decode = transfer_.decode.get()) {
      const auto place = [&](const std::vector<std::uint32_t>& list) {
        return list.empty() ? ArrayPlace{} : layout.place_of(list[part.source]);
      };
      scales_ = place(decode->scales);
      zeros_ = place(decode->zeros);
      factor_ = place(decode->factors);
    }
    const auto cut = [&](std::uint64_t bytes) {
      HFSHARD_CHECK(bytes <= scratch.size());  // the plan counted it
      const auto out = scratch.first(bytes);
      scratch = scratch.subspan(bytes);
      return out;
    };
    raw_ = cut(form_.raw_bytes);
    converted_ = cut(form_.converted_bytes);
    scale_bytes_ = cut(form_.scale_bytes);
    zero_bytes_ = cut(form_.zero_bytes);
    row_ = cut(form_.row_bytes);
  }

  const BandForm& form() const { return form_; }
  std::span<std::byte> row_scratch() const { return row_; }
  std::uint64_t overflows() const { return overflows_; }
  const TensorInfo& info() const { return info_; }
  std::uint32_t file() const { return place_.file; }

  // The stored elements of a band. Rows outside of its map are undefined.
  struct Values {
    std::uint64_t begin = 0;
    std::span<const std::byte> bytes;
  };

  // Returns values that are valid until the next call of `read` or `release`.
  Values read(const Band& band) {
    const StoredBand stored = stored_band(band, place_.begin_bytes, in_bits_);
    range_ = stored.file;
    {
      const StageSpan span(meter_, Busy::read);
      bytes_ = sources_.view({place_.file, range_}, raw_);
    }
    if (!transfer_.converts(leaf_dtype_)) return {stored.begin, bytes_.view.bytes()};
    if (transfer_.decode) read_scales(transfer_.decode->form, stored);
    const auto values = converted_.first(stored.length * size_bits(leaf_dtype_) / 8);
    convert_rows(band, stored.begin, stored.begin + stored.length, bytes_.view.bytes(), values);
    return {stored.begin, values};
  }

  // Releases the values after their use. Throws if they weren't the file's.
  void release() { sources_.release({place_.file, range_}, std::exchange(bytes_, {})); }

 private:
  // Converts the rows that the band's map uses, in runs of adjacent rows. For interleaved rows
  // (gate and up in one tensor), each leaf only computes its own half.
  void convert_rows(const Band& band, std::uint64_t begin, std::uint64_t end,
                    std::span<const std::byte> raw, std::span<std::byte> values) {
    std::uint64_t run_begin = begin;
    std::uint64_t run_end = begin;
    const auto flush = [&] {
      if (run_begin == run_end) return;
      const auto part = [&](auto bytes, std::uint64_t bits) {
        return bytes.subspan((run_begin - begin) * bits / 8, (run_end - run_begin) * bits / 8);
      };
      convert(run_begin, run_end - run_begin, part(raw, in_bits_),
              part(values, size_bits(leaf_dtype_)));
    };
    RowCursor rows(band.map, form_.row);
    while (const IndexMap* part = rows.next()) {
      const std::uint64_t row_begin = part->src_base / form_.row * form_.row;
      const std::uint64_t from = std::max(row_begin, begin);
      if (from > run_end) {
        flush();
        run_begin = from;
      }
      run_end = std::max(run_end, std::min(row_begin + form_.row, end));
    }
    flush();
  }

  void convert(std::uint64_t begin, std::uint64_t count, std::span<const std::byte> raw,
               std::span<std::byte> values) {
    if (!transfer_.decode) {
      overflows_ +=
          apply_value(transfer_.value, transfer_.source_dtype, leaf_dtype_, count, raw, values);
      return;
    }
    const BlockScale& form = transfer_.decode->form;
    const ScaleRange range = scale_range(form, begin, count);
    const ByteRange zeros = zero_range(form, begin, count);
    const std::size_t size = size_bits(form.scale_dtype) / 8;
    const Scales scales{
        scale_bytes_.subspan((range.first - first_scale_) * size, range.count * size),
        zero_bytes_.subspan(zeros.begin - first_zero_, zeros.end - zeros.begin), factor_value_};
    apply_decode(form, transfer_.value, leaf_dtype_, begin, count, raw, scales, values, overflows_);
  }

  // Has the order of PlanFeed.
  void read_scales(const BlockScale& form, const StoredBand& band) {
    const ScaleRange range = scale_range(form, band.begin, band.length);
    const ByteRange zeros = zero_range(form, band.begin, band.length);
    const std::size_t size = size_bits(form.scale_dtype) / 8;
    first_scale_ = range.first;
    first_zero_ = zeros.begin;
    const StageSpan span(meter_, Busy::read);
    copy(scales_, {range.first * size, (range.first + range.count) * size}, scale_bytes_);
    if (form.zeros != ZeroPoints::none) copy(zeros_, zeros, zero_bytes_);
    if (form.factor == Factor::none) return;
    std::array<std::byte, sizeof(float)> factor{};
    copy(factor_, {0, factor.size()}, factor);
    factor_value_ = load_le<float>(factor.data());
  }

  void copy(const ArrayPlace& from, const ByteRange& range, std::span<std::byte> out) const {
    sources_.copy({from.file, {from.begin_bytes + range.begin, from.begin_bytes + range.end}}, out);
  }

  const SourceReads& sources_;
  StageMeter* meter_;
  const Transfer& transfer_;
  const TensorInfo& info_;
  ArrayPlace place_;
  ArrayPlace scales_, zeros_, factor_;
  DType leaf_dtype_;
  std::uint64_t in_bits_;
  BandForm form_;
  std::span<std::byte> raw_, converted_, scale_bytes_, zero_bytes_, row_;
  SourceReads::Bytes bytes_;
  ByteRange range_;
  std::uint64_t first_scale_ = 0;  // of scale_bytes_
  std::uint64_t first_zero_ = 0;   // of zero_bytes_, in bytes
  float factor_value_ = 1;
  std::uint64_t overflows_ = 0;
};

}  // namespace

std::uint64_t UnitFiller::scratch_bytes(const UnitRef& ref) const {
  return layout_.units()[layout_.group_of(ref).leaf].scratch_bytes;
}

void UnitFiller::hint(const UnitRef& ref) const {
  const Leaf& leaf = layout_.model().leaves[layout_.group_of(ref).leaf];
  UnitPartCursor parts(layout_, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout_.model().transfers[part->transfer];
    const std::uint32_t array = transfer.sources[part->source];
    if (layout_.reads_pieces(array)) continue;
    const ArrayPlace place = layout_.place_of(array);
    const SourceFile& source = sources_.file(place.file);
    if (!source.takes_hints()) continue;
    const BandForm form = band_form(transfer, leaf.dtype, layout_.limits());
    ByteRange run;  // adjacent bands are one hint
    const auto flush = [&] {
      if (run.begin != run.end) source.will_need(run.begin, run.end - run.begin);
    };
    BandCursor bands(part->map, form.row, form.most, form.gap);
    while (const Band* band = bands.next()) {
      const std::uint64_t bits = size_bits(transfer.source_dtype);
      const ByteRange next = stored_band(*band, place.begin_bytes, bits).file;
      if (next.begin > run.end) {
        flush();
        run.begin = next.begin;
      }
      run.end = next.end;
    }
    flush();
  }
}

void UnitFiller::fill_constants(const UnitRef& ref, const std::vector<Cell>& cells,
                                std::span<std::byte> region) const {
  const std::uint32_t index = layout_.group_of(ref).leaf;
  const Leaf& leaf = layout_.model().leaves[index];
  const UnitForm& form = layout_.units()[index];
  const auto fills = layout_.model().fills_of(index);
  if (has_edges(cells) || !fills.empty()) {
    std::memset(region.data(), 0, region.size());
  } else if (!form.slices) {  // only the gaps between chunks
    for (std::uint64_t k = 0; k < form.chunks_per_unit; ++k) {
      const auto gap = region.subspan(k * form.stride_bytes, form.stride_bytes)
                           .subspan(form.form.stored_bytes());
      std::memset(gap.data(), 0, gap.size());
    }
  }
  std::vector<IndexMap> pieces;
  for (const std::uint32_t fill : fills) {
    const Fill& item = layout_.model().fills[fill];
    if (item.scalar == 0) continue;
    IndexMap map = item.map;
    map.src_base = 0;
    for (Digit& digit : map.digits) digit.src_step = 0;
    scatter(leaf, cells, map, scalar_bytes(item.scalar, leaf.dtype), region, pieces);
  }
}

std::uint64_t UnitFiller::fill_plain(const UnitRef& ref, const UnitPart& part,
                                     const std::vector<Cell>& cells, std::span<std::byte> region,
                                     std::span<std::byte> scratch, Digest128* sum) const {
  const std::uint32_t index = layout_.group_of(ref).leaf;
  const Leaf& leaf = layout_.model().leaves[index];
  const Transfer& transfer = layout_.model().transfers[part.transfer];
  BandReader reader(layout_, sources_, meter_, part, leaf.dtype, scratch);
  const RowHasher hasher(transfer, leaf.dtype);
  std::vector<IndexMap> pieces;
  try {
    const BandForm& read = reader.form();
    BandCursor bands(part.map, read.row, read.most, read.gap);
    while (const Band* band = bands.next()) {
      const BandReader::Values values = reader.read(*band);
      if (leaf.dtype == DType::boolean) check_bools(values.bytes);
      if (sum != nullptr)
        hasher.add(band->map, values.begin, values.bytes, reader.row_scratch(), *sum);
      IndexMap local = band->map;
      local.src_base -= values.begin;
      scatter(leaf, cells, local, values.bytes, region, pieces);
      reader.release();
    }
  } catch (Error& error) {  // it doesn't know the tensor and rule
    throw error.in_file(sources_.file(reader.file()).name())
        .in_tensor(reader.info().name)
        .by_rule(layout_.model().rules[transfer.rule]);
  }
  return reader.overflows();
}

std::uint64_t UnitFiller::fill(const UnitRef& ref, std::span<std::byte> region,
                               std::span<std::byte> scratch,
                               std::vector<SlotDigest>* digests) const {
  const std::vector<Cell> cells = unit_cells(layout_, ref);
  fill_constants(ref, cells, region);
  std::uint64_t overflows = 0;
  UnitPartCursor parts(layout_, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout_.model().transfers[part->transfer];
    SlotDigest digest{layout_.model().digest_slot(part->transfer, part->source), {}};
    Digest128* sum = digests != nullptr ? &digest.sum : nullptr;
    overflows += layout_.reads_pieces(transfer.sources[part->source])
                     ? pieces_.fill(ref, *part, cells, region, scratch, sum)
                     : fill_plain(ref, *part, cells, region, scratch, sum);
    if (digests != nullptr) digests->push_back(digest);
  }
  return overflows;
}

}  // namespace hfshard
