#include "run/engine/unpacked.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/heap.h"
#include "ops/move.h"
#include "plan/layout/piece_window.h"
#include "run/engine/handover.h"
#include "run/engine/piece_steps.h"
#include "run/engine/pipeline.h"
#include "run/engine/stop.h"
#include "run/engine/tbb_stages.h"
#include "run/engine/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Moves elements of a source's cells to the pieces of its file.
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

  // For each picked index in the array, the rest of the band is one run of its piece.
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
  // Maps the elements of one picked index to a packed run.
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
    if (const auto to = file_.in_memory(begin * element, size); !to.empty())
      return move_elements(run, element, bytes, to);
    const bool lies_together =
        run.digits.empty() || (run.digits.size() == 1 && run.digits[0].src_step == 1);
    if (lies_together)
      return file_.write_at(begin * element, bytes.subspan(run.src_base * element, size));
    move_elements(run, element, bytes, ordered_.first(size));
    file_.write_at(begin * element, ordered_.first(size));
  }

  const UnpackedForm& form_;
  const TensorInfo& info_;
  Shape in_piece_;  // of a stored piece
  const std::vector<std::uint8_t>& order_;
  std::vector<bool> picked_;  // one index per piece, several per cell
  std::span<std::byte> ordered_;
  ScratchFile& file_;
};

// Writes a row-major band to its rows, without the part outside of the array.
void write_rows(const PieceBand& band, const Shape& shape, std::size_t element,
                std::span<const std::byte> bytes, ScratchFile& file) {
  const Shape strides = shape.strides();
  const std::size_t rank = shape.rank();
  const Shape packed = band.full.extent.strides();
  // Axes from `inner` on are contiguous in both.
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

// Maps a stored band to the same box in row-major order.
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

// Splits a box into at most `most` boxes, each of whole steps.
std::vector<Box> boxes_of(const Box& all, const Shape& steps, std::uint64_t most) {
  const Shape counts = chunk_counts(all.extent, steps);
  const auto longest = std::ranges::max_element(counts);
  if (longest == counts.end()) return {all};
  const auto axis = static_cast<std::size_t>(longest - counts.begin());
  const std::uint64_t count =
      std::clamp<std::uint64_t>(*longest, 1, std::max<std::uint64_t>(most, 1));
  std::vector<Box> out(count, all);
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t begin = *longest * k / count * steps[axis];
    const std::uint64_t end = *longest * (k + 1) / count * steps[axis];
    out[k].begin[axis] += begin;
    out[k].extent[axis] = std::min(end, all.extent[axis]) - begin;
  }
  return out;
}

// Returns the steps at which boxes that are unpacked in parallel can begin: those of pieces. Pieces
// that needn't be read whole can be split at any index of the slowest axis, which keeps runs as
// long.
Shape steps_of(const UnpackedForm& form, const Grid& stored) {
  Shape out = stored.chunk;
  if (form.parted == 0) return out;
  const std::vector<std::uint8_t> order = storage_order(stored);
  const auto slowest =
      std::ranges::find_if(order, [&](std::uint8_t axis) { return !form.is_parted(axis); });
  if (slowest != order.end() && slowest + 1 != order.end()) out[*slowest] = 1;
  return out;
}

// Returns the parts of all arrays.
std::uint64_t parts_of(const Layout& layout) {
  std::uint64_t out = 0;
  for (const UnpackedForm& form : layout.unpacked())
    out += form.parts(layout.catalog().tensors[form.array].shape);
  return out;
}

}  // namespace

std::vector<std::uint32_t> unpacked_by(const Layout& layout, const UnitRef& ref) {
  std::vector<std::uint32_t> out;
  if (layout.unpacked().empty()) return out;
  const auto add = [&](std::uint32_t array, std::uint64_t element) {
    const UnpackedForm* const form = find_form(layout.unpacked(), array);
    if (form == nullptr) return;
    const Shape& shape = layout.catalog().tensors[array].shape;
    out.push_back(form->first + static_cast<std::uint32_t>(form->part_of(shape, element)));
  };
  UnitPartCursor parts(layout, ref);
  while (const UnitPart* part = parts.next()) {
    const Transfer& transfer = layout.model().transfers[part->transfer];
    add(transfer.sources[part->source], transfer.map.src_base);
    if (!transfer.decode) continue;
    transfer.decode->for_each_tensor_of(part->source,
                                        [&](std::uint32_t scales) { add(scales, 0); });
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

UnpackedArrays::UnpackedArrays(const Layout& layout, std::string directory,
                               std::uint64_t memory_bytes, OpenSources& sources,
                               const RunOptions& options)
    : layout_(layout), directory_(std::move(directory)), options_(options) {
  if (memory_bytes > 0) memory_.emplace(memory_bytes, false);
  const std::uint64_t parts = parts_of(layout);
  parts_.reserve(parts);
  sources.reserve(sources.size() + parts);
  for (const UnpackedForm& form : layout.unpacked()) {
    const TensorInfo& info = layout.catalog().tensors[form.array];
    for (std::uint64_t number = 0; number < form.parts(info.shape); ++number) {
      auto file = std::make_unique<ScratchFile>(info.name);
      parts_.push_back({&form, number, file.get()});
      sources.push_back(std::move(file));
    }
  }
}

std::uint64_t UnpackedArrays::heap_bytes(const Layout& layout) {
  const std::uint64_t parts = parts_of(layout);
  std::uint64_t out = heap_block(parts * sizeof(Part)) + parts * sizeof(OpenSources::value_type);
  for (const UnpackedForm& form : layout.unpacked()) {
    const TensorInfo& info = layout.catalog().tensors[form.array];
    out +=
        form.parts(info.shape) * (heap_block(sizeof(ScratchFile)) + hfshard::heap_bytes(info.name));
  }
  return out;
}

std::vector<std::shared_ptr<const void>> UnpackedArrays::make_ready(const UnitRef& ref,
                                                                    Arena& arena) {
  const std::vector<std::uint32_t> wanted = unpacked_by(layout_, ref);
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    if (!std::ranges::binary_search(wanted, number)) parts_[number].ready.reset();
  }
  std::vector<std::shared_ptr<const void>> out;
  for (const std::uint32_t number : wanted) {  // if one fails, the others stay ready
    Part& part = parts_[number];
    if (!part.ready) part.ready = unpack(part, arena);
    out.push_back(part.ready);
  }
  return out;
}

std::shared_ptr<const void> UnpackedArrays::unpack(Part& part, Arena& arena) {
  if (auto again = part.known.lock()) return again;
  arena.wait_for([&] {
    const std::lock_guard lock(mutex_);
    return !part.used;
  });
  auto out = hold(part, arena);
  unpack_into(part, arena);
  part.known = out;
  return out;
}

// Makes room for a part. Its file must not be read after the returned object is gone.
std::shared_ptr<const void> UnpackedArrays::hold(Part& part, Arena& arena) {
  const UnpackedForm& form = *part.form;
  const TensorInfo& info = layout_.catalog().tensors[form.array];
  const std::uint64_t size = packed_bytes(info.dtype, form.elements(info.shape));
  auto block = std::make_shared<Arena::Block>();
  if (memory_ && size > 0 && size <= memory_->size_bytes()) {
    arena.wait_for([&] {
      *block = memory_->try_take(size);
      return !block->bytes().empty();
    });
  }
  if (const auto memory = block->bytes(); !memory.empty()) {
    // Nothing writes the rest of pieces that are partly outside of the array.
    if (form.elements(info.shape) * form.parts(info.shape) != info.shape.numel())
      std::ranges::fill(memory.first(size), std::byte{0});
    part.file->reset_in(memory.first(size));
  } else {
    arena.wait_for([] { return false; });  // no tile may still read the files
    for (Part& other : parts_) {
      if (!other.ready) other.file->clear();
    }
    part.file->reset(directory_, size);
  }
  {
    const std::lock_guard lock(mutex_);
    part.used = true;
  }
  return {block.get(), [this, &part, block](const void*) mutable {
            const std::lock_guard guard(mutex_);
            block->release();
            part.used = false;
          }};
}

void UnpackedArrays::unpack_into(const Part& part, Arena& arena) {
  ScratchFile& file = *part.file;
  const UnpackedForm& form = *part.form;
  const Checkpoint& source = layout_.model().source();
  const TensorInfo& info = source.catalog().tensors[form.array];
  const Grid grid = source.catalog().grid_of(form.array);
  const UnpackBands bands = unpack_bands(
      info.dtype, grid, source.scratch_bytes(form.array, PieceSteps::any), layout_.limits());
  HFSHARD_CHECK(bands.scratch_bytes() <= arena.size_bytes());
  // Each box has its own memory.
  const std::vector<Box> boxes =
      boxes_of(form.box_of(info.shape, part.number), steps_of(form, grid),
               std::min<std::uint64_t>(kernel_threads(options_),
                                       arena.size_bytes() / bands.scratch_bytes()));
  const Arena::Block taken = arena.take(boxes.size() * bands.scratch_bytes());
  const auto memory = taken.bytes();
  if (boxes.size() == 1) return unpack_box(form, boxes.front(), file, memory);
  struct Context {
    std::function<void(std::size_t)> work;
    char ended = 0;
  };
  Context context{[&](std::size_t box) {
    unpack_box(form, boxes[box], file,
               memory.subspan(box * bands.scratch_bytes(), bands.scratch_bytes()));
  }};
  const auto run = [](void* given, std::size_t box) {
    take_over(given);
    auto* ours = static_cast<Context*>(given);
    ours->work(box);
    hand_over(&ours->ended);
  };
  hand_over(&context);
  run_parts(boxes.size(), run, &context);
  take_over(&context.ended);
}

void UnpackedArrays::unpack_box(const UnpackedForm& form, const Box& box, ScratchFile& file,
                                std::span<std::byte> memory) const {
  const Checkpoint& source = layout_.model().source();
  const TensorInfo& info = source.catalog().tensors[form.array];
  const Grid grid = source.catalog().grid_of(form.array);
  const UnpackBands bands = unpack_bands(
      info.dtype, grid, source.scratch_bytes(form.array, PieceSteps::any), layout_.limits());
  const std::size_t element = size_bits(info.dtype) / 8;
  const auto ordered = memory.subspan(bands.band_bytes, bands.band_bytes);
  PieceWalk walk{info, grid};
  walk.open = open_stored_pieces(source, form.array,
                                 memory.subspan(2 * bands.band_bytes, bands.reader_bytes));
  walk.whole_cells = form.parted == 0;
  walk.box = box;
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
