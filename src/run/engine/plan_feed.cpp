#include "run/engine/plan_feed.h"

#include "ops/decode.h"
#include "plan/layout/band.h"
#include "run/engine/sources.h"
#include "run/engine/stored_band.h"
#include "run/engine/unit_parts.h"

namespace hfshard {

PlanFeed::PlanFeed(const Layout& layout, std::uint64_t begin, std::uint64_t end,
                   const JournalState* done)
    : layout_(layout),
      far_(far_files(layout.catalog())),
      at_(layout.unit_at(begin)),
      end_(end),
      done_(done) {}

bool PlanFeed::next(FileRange& next) {
  while (ranges_.empty()) {
    const std::uint64_t address = layout_.address_of(at_);
    if (address >= end_) return false;
    const std::uint64_t region = layout_.region_bytes(at_);
    if (done_ == nullptr || !done_->covers(address, address + region)) add_unit(at_);
    at_ = layout_.next(at_);
  }
  next = ranges_.front();
  ranges_.pop_front();
  return true;
}

void PlanFeed::add_unit(const UnitRef& ref) {
  const Leaf& leaf = layout_.model().leaves[layout_.group_of(ref).leaf];
  UnitPartCursor parts(layout_, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout_.model().transfers[part->transfer];
    const TensorInfo& info = layout_.catalog().tensors[transfer.sources[part->source]];
    if (!info.is_whole()) continue;  // its checkpoint reads those
    const BandForm form = band_form(transfer, leaf.dtype, layout_.limits());
    BandCursor bands(part->map, form.row, form.most, form.gap);
    while (const Band* band = bands.next()) {
      const StoredBand stored =
          stored_band(*band, info.begin_bytes, size_bits(transfer.source_dtype));
      if (far_[info.file]) ranges_.push_back({info.file, stored.file});
      if (transfer.decode) add_scales(*transfer.decode, part->source, stored);
    }
  }
}

// Has the order in which UnitFiller reads them.
void PlanFeed::add_scales(const Decode& decode, std::uint64_t source, const StoredBand& band) {
  const auto add = [&](const std::vector<std::uint32_t>& list, const ByteRange& range) {
    if (list.empty()) return;
    const TensorInfo& info = layout_.catalog().tensors[list[source]];
    if (!info.is_whole() || !far_[info.file]) return;
    ranges_.push_back({info.file, {info.begin_bytes + range.begin, info.begin_bytes + range.end}});
  };
  const ScaleRange scales = scale_range(decode.form, band.begin, band.length);
  const std::uint64_t size = size_bits(decode.form.scale_dtype) / 8;
  add(decode.scales, {scales.first * size, (scales.first + scales.count) * size});
  add(decode.zeros, zero_range(decode.form, band.begin, band.length));
  add(decode.factors, {0, sizeof(float)});
}

}  // namespace hfshard
