#include "run/unit_filler.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "ops/value.h"
#include "plan/band.h"
#include "run/cells.h"
#include "run/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {

OpenSources open_sources(const Catalog& catalog) {
  OpenSources out;
  out.reserve(catalog.files.size());
  for (const CatalogFile& file : catalog.files) {
    auto source = std::make_unique<FileSource>(file.path);
    if (source->stamp() != FileStamp{file.size_bytes, file.mtime_ns, file.inode}) {
      throw Error(ErrorCode::conflict, "the source changed while it was being read")
          .in_file(file.path)
          .hint("wait until the download or copy is done and run the same command again");
    }
    out.push_back(std::move(source));
  }
  return out;
}

namespace {

bool has_edges(const Leaf& leaf, const Grid& grid) {
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    if (leaf.shape[d] % grid.chunk[d] != 0) return true;
  }
  return false;
}

struct Scratch {
  std::span<std::byte> raw, converted, row;
};

Scratch divide_scratch(std::span<std::byte> bytes, std::uint64_t raw, std::uint64_t converted) {
  Scratch out;
  out.raw = bytes.first(round_up(raw, 64));
  out.converted = bytes.subspan(out.raw.size(), round_up(converted, 64));
  out.row = bytes.subspan(out.raw.size() + out.converted.size());
  return out;
}

}  // namespace

std::uint64_t UnitFiller::scratch_bytes(const UnitRef& ref) const {
  return plan_.units[plan_.group_of(ref).leaf].scratch_bytes;
}

void UnitFiller::hint(const UnitRef& ref) const {
  for_each_part(plan_, ref, [&](const UnitPart& part) {
    const Transfer& transfer = plan_.model.transfers[part.transfer];
    const TensorInfo& info = plan_.catalog.tensors[transfer.sources[part.source]];
    std::uint64_t span = 1;
    for (const Digit& digit : part.map.digits) {
      span += (digit.extent - 1) * static_cast<std::uint64_t>(digit.src_step);
    }
    const std::uint64_t bits = size_bits(info.dtype);
    sources_[info.file]->will_need(info.begin_bytes + part.map.src_base * bits / 8,
                                   ceil_div(span * bits, 8));
  });
}

void UnitFiller::fill_constants(const UnitRef& ref, const std::vector<Cell>& cells,
                                std::span<std::byte> region) const {
  const std::uint32_t index = plan_.group_of(ref).leaf;
  const Leaf& leaf = plan_.model.leaves[index];
  const UnitForm& form = plan_.units[index];
  const auto fills = plan_.fills_of(index);
  if (has_edges(leaf, plan_.grids[index]) || !fills.empty()) {
    std::memset(region.data(), 0, region.size());
  } else {  // only the gaps between chunks
    for (std::uint64_t k = 0; k < form.chunks_per_unit; ++k) {
      const auto gap = region.subspan(k * form.stride_bytes, form.stride_bytes)
                           .subspan(form.form.stored_bytes());
      std::memset(gap.data(), 0, gap.size());
    }
  }
  std::vector<IndexMap> pieces;
  for (const std::uint32_t fill : fills) {
    const Fill& item = plan_.model.fills[fill];
    if (item.scalar == 0) continue;
    IndexMap map = item.map;
    map.src_base = 0;
    for (Digit& digit : map.digits) digit.src_step = 0;
    scatter(leaf, cells, form.form.cell_bytes, map, scalar_bytes(item.scalar, leaf.dtype), region,
            pieces);
  }
}

void UnitFiller::fill(const UnitRef& ref, std::span<std::byte> region, std::span<std::byte> scratch,
                      std::vector<SlotDigest>& digests) const {
  const std::uint32_t index = plan_.group_of(ref).leaf;
  const Leaf& leaf = plan_.model.leaves[index];
  const UnitForm& form = plan_.units[index];
  const std::vector<Cell> cells = unit_cells(plan_, ref);
  fill_constants(ref, cells, region);
  std::vector<IndexMap> pieces;
  for_each_part(plan_, ref, [&](const UnitPart& part) {
    const Transfer& transfer = plan_.model.transfers[part.transfer];
    const TensorInfo& info = plan_.catalog.tensors[transfer.sources[part.source]];
    const std::size_t in_bytes = size_bits(info.dtype) / 8;
    const std::size_t out_bytes = size_bits(leaf.dtype) / 8;
    const bool converts = !transfer.value.empty() || info.dtype != leaf.dtype;
    const std::uint64_t row = row_length(transfer.source_shape);
    const std::uint64_t most = std::max<std::uint64_t>(plan_.limits.segment_bytes / in_bytes, 1);
    const std::uint64_t band_most = largest_band(transfer.source_shape.numel(), row, most);
    const Scratch buffers =
        divide_scratch(scratch, band_most * in_bytes, converts ? band_most * out_bytes : 0);
    const RowHasher hasher(transfer, leaf.dtype);
    SlotDigest digest{plan_.digest_slot(part.transfer, part.source), {}};
    try {
      for_each_band(part.map, row, most, plan_.limits.run_bytes / in_bytes, [&](const Band& band) {
        const auto raw = buffers.raw.first(band.length * in_bytes);
        sources_[info.file]->read_at(info.begin_bytes + band.begin * in_bytes, raw);
        std::span<const std::byte> ready = raw;
        if (converts) {
          const auto converted = buffers.converted.first(band.length * out_bytes);
          apply_value(transfer.value, info.dtype, leaf.dtype, band.length, raw, converted);
          ready = converted;
        }
        hasher.add(band.map, band.begin, ready, buffers.row, digest.sum);
        IndexMap local = band.map;
        local.src_base -= band.begin;
        scatter(leaf, cells, form.form.cell_bytes, local, ready, region, pieces);
      });
    } catch (Error& error) {  // the source knows its bytes, not what they were for
      throw error.in_file(plan_.catalog.files[info.file].path)
          .in_tensor(info.name)
          .by_rule(plan_.model.rules[transfer.rule]);
    }
    digests.push_back(digest);
  });
}

}  // namespace hfshard
