#include "run/moving/plan_feed.h"

#include "ops/decode.h"
#include "plan/layout/band.h"
#include "run/moving/sources.h"
#include "run/moving/stored_band.h"
#include "run/moving/unit_parts.h"

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
    const TensorInfo* scales =
        transfer.decode ? &layout_.catalog().tensors[transfer.decode->scales[part->source]]
                        : nullptr;
    const BandForm form = band_form(transfer, leaf.dtype, layout_.limits());
    BandCursor bands(part->map, form.row, form.most, form.gap);
    while (const Band* band = bands.next()) {
      const StoredBand stored =
          stored_band(*band, info.begin_bytes, size_bits(transfer.source_dtype));
      if (far_[info.file]) ranges_.push_back({info.file, stored.file});
      if (scales == nullptr || !far_[scales->file]) continue;
      const ScaleRange range = scale_range(transfer.decode->form, stored.begin, stored.length);
      const std::uint64_t size = size_bits(scales->dtype) / 8;
      const std::uint64_t begin = scales->begin_bytes + range.first * size;
      ranges_.push_back({scales->file, {begin, begin + range.count * size}});
    }
  }
}

}  // namespace hfshard
