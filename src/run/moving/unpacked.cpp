#include "run/moving/unpacked.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/move.h"
#include "plan/layout/piece_window.h"
#include "run/moving/piece_steps.h"
#include "run/moving/stop.h"
#include "run/moving/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Puts what is read of a source's cells where the pieces of its file have it.
class Regrid {
 public:
  Regrid(const UnpackedForm& form, const TensorInfo& info, const Grid& stored,
         std::span<std::byte> ordered, ScratchFile& file)
      : form_(form),
        info_(info),
        in_piece_(stored_strides(form.grid.chunk, stored.order)),
        order_(stored.order),
        ordered_(ordered),
        file_(file) {
    for (std::size_t axis = 0; axis < info.shape.rank(); ++axis)
      picked_.push_back(form.grid.chunk[axis] < stored.inner[axis]);
  }

  // Of each picked index that lies in the array, the rest of the band is one run of its piece.
  void put(const PieceBand& band, std::span<const std::byte> bytes) {
    const Shape in_band = stored_strides(band.full.extent, order_);
    Shape picks = band.clipped.extent;
    Shape rest = band.full.extent;
    Shape piece = band.full.begin;
    std::uint64_t begin = 0;
    for (std::size_t axis = 0; axis < picked_.size(); ++axis) {
      (picked_[axis] ? rest : picks)[axis] = 1;
      begin += piece[axis] % form_.grid.chunk[axis] * in_piece_[axis];
      piece[axis] /= form_.grid.chunk[axis];
    }
    const IndexMap run = run_of(rest, in_band);
    for_each_chunk(picks, [&](const Shape& pick) {
      Shape to = piece;
      IndexMap from = run;
      for (std::size_t axis = 0; axis < picked_.size(); ++axis) {
        to[axis] += pick[axis];
        from.src_base += pick[axis] * in_band[axis];
      }
      put_run(from, form_.piece_begin(info_.shape, to) + begin, bytes);
      return true;
    });
  }

 private:
  // From the elements of one picked index to a packed run of them.
  IndexMap run_of(const Shape& rest, const Shape& in_band) const {
    const Shape packed = stored_strides(rest, order_);
    IndexMap out;
    for (std::size_t axis = 0; axis < rest.rank(); ++axis) {
      out.digits.push_back({rest[axis], static_cast<std::int64_t>(in_band[axis]),
                            static_cast<std::int64_t>(packed[axis])});
    }
    return normalize(out);
  }

  void put_run(const IndexMap& run, std::uint64_t begin, std::span<const std::byte> bytes) {
    const std::size_t element = size_bits(info_.dtype) / 8;
    const std::uint64_t size = run.count() * element;
    const bool lies_together =
        run.digits.empty() || (run.digits.size() == 1 && run.digits[0].src_step == 1);
    if (lies_together)
      return file_.write_at(begin * element, bytes.subspan(run.src_base * element, size));
    move_elements(run, element, bytes, ordered_.first(size));
    file_.write_at(begin * element, ordered_.first(size));
  }

  const UnpackedForm& form_;
  const TensorInfo& info_;
  Shape in_piece_;  // strides of a piece, as it is stored
  const std::vector<std::uint8_t>& order_;
  std::vector<bool> picked_;  // axes of which a piece has one index, and a cell has several
  std::span<std::byte> ordered_;
  ScratchFile& file_;
};

// Writes a row-major band where its rows belong; what lies outside of the array stays away.
void write_rows(const PieceBand& band, const Shape& shape, std::size_t element,
                std::span<const std::byte> bytes, ScratchFile& file) {
  const Shape strides = shape.strides();
  const std::size_t rank = shape.rank();
  const Shape packed = band.full.extent.strides();
  // Axes from `inner` on lie together in both.
  std::size_t inner = rank;
  std::uint64_t length = 1;
  while (inner > 0) {
    length *= band.clipped.extent[--inner];
    if (band.clipped.extent[inner] != shape[inner] || band.full.extent[inner] != shape[inner])
      break;
  }
  std::vector<std::uint64_t> at(inner, 0);
  for (;;) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t index = d < inner ? at[d] : 0;
      from += index * packed[d];
      to += (band.clipped.begin[d] + index) * strides[d];
    }
    file.write_at(to * element, bytes.subspan(from * element, length * element));
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == band.clipped.extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

// From a band as it is stored to the same box row-major.
IndexMap row_major(const PieceBand& band, const std::vector<std::uint8_t>& order) {
  IndexMap out;
  const Shape packed = band.full.extent.strides();
  const Shape stored = stored_strides(band.full.extent, order);
  for (std::size_t axis = 0; axis < packed.rank(); ++axis) {
    out.digits.push_back({band.full.extent[axis], static_cast<std::int64_t>(stored[axis]),
                          static_cast<std::int64_t>(packed[axis])});
  }
  return normalize(out);
}

}  // namespace

std::vector<std::uint32_t> unpacked_by(const Layout& layout, const UnitRef& ref) {
  std::vector<std::uint32_t> out;
  if (layout.unpacked().empty()) return out;
  UnitPartCursor parts(layout, ref);
  while (const UnitPart* part = parts.next()) {
    const std::uint32_t array = layout.model().transfers[part->transfer].sources[part->source];
    if (find_form(layout.unpacked(), array) != nullptr) out.push_back(array);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

UnpackedArrays::UnpackedArrays(const Layout& layout, std::string directory, OpenSources& sources,
                               const RunOptions& options)
    : layout_(layout), directory_(std::move(directory)), options_(options) {
  for (const UnpackedForm& form : layout.unpacked()) {
    auto file = std::make_unique<ScratchFile>(layout.catalog().tensors[form.array].name);
    files_.push_back(file.get());
    sources.push_back(std::move(file));
  }
}

void UnpackedArrays::make_ready(const UnitRef& ref, Arena& arena) {
  const std::vector<std::uint32_t> wanted = unpacked_by(layout_, ref);
  if (std::ranges::includes(ready_, wanted)) return;
  const Arena::Block all = arena.take(arena.size_bytes());
  const auto form_of = [&](std::uint32_t array) -> const UnpackedForm& {
    return *find_form(layout_.unpacked(), array);
  };
  const auto file_of = [&](std::uint32_t array) -> ScratchFile& {
    return *files_[static_cast<std::size_t>(&form_of(array) - layout_.unpacked().data())];
  };
  std::erase_if(ready_, [&](std::uint32_t array) {
    if (std::ranges::binary_search(wanted, array)) return false;
    file_of(array).clear();
    return true;
  });
  for (const std::uint32_t array : wanted) {  // one that fails is not ready, and the others are
    if (std::ranges::binary_search(ready_, array)) continue;
    unpack(form_of(array), file_of(array), all.bytes());
    ready_.insert(std::ranges::lower_bound(ready_, array), array);
  }
}

void UnpackedArrays::unpack(const UnpackedForm& form, ScratchFile& file,
                            std::span<std::byte> memory) const {
  const Checkpoint& source = layout_.model().source();
  const TensorInfo& info = source.catalog().tensors[form.array];
  const Grid grid = source.catalog().grid_of(form.array);
  const UnpackBands bands = unpack_bands(
      info.dtype, grid, source.scratch_bytes(form.array, PieceSteps::any), layout_.limits());
  HFSHARD_CHECK(bands.scratch_bytes() <= memory.size());
  file.reset(directory_, packed_bytes(info.dtype, form.elements(info.shape)));
  const std::size_t element = size_bits(info.dtype) / 8;
  const auto ordered = memory.subspan(bands.band_bytes, bands.band_bytes);
  PieceWalk walk{info, grid};
  walk.open = open_stored_pieces(source, form.array,
                                 memory.subspan(2 * bands.band_bytes, bands.reader_bytes));
  for (const std::uint64_t extent : info.shape) {
    walk.box.begin.push_back(0);
    walk.box.extent.push_back(extent);
  }
  walk.most_elements = bands.band_bytes / element;
  walk.raw = memory.first(bands.band_bytes);
  Regrid regrid(form, info, grid, ordered, file);
  const auto all = [](const Box&) { return true; };
  walk_pieces(walk, all, [&](const PieceBand& band, std::span<const std::byte> bytes) {
    check_stop(options_);
    if (!form.row_major) return regrid.put(band, bytes);
    if (grid.order.empty()) return write_rows(band, info.shape, element, bytes, file);
    const auto out = ordered.first(bytes.size());
    move_elements(row_major(band, grid.order), element, bytes, out);
    write_rows(band, info.shape, element, out, file);
  });
}

}  // namespace hfshard
