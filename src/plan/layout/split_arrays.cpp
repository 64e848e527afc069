#include "plan/layout/split_arrays.h"

#include <algorithm>

#include "base/checked.h"
#include "base/heap.h"
#include "plan/layout/cut_grid.h"

namespace hfshard {
namespace {

// Returns the axes of a source for which a rule takes several indices.
std::vector<bool> moved_axes(const Transfer& transfer) {
  const Shape& shape = transfer.source_shape;
  const Shape strides = shape.strides();
  std::vector<bool> out(shape.rank(), false);
  for (const Digit& digit : split_by_axes(inverse(transfer.map), shape).digits) {
    if (digit.extent > 1 && digit.dst_step != 0) out[axis_of(strides, digit.dst_step)] = true;
  }
  return out;
}

// Returns whether elements have the same order in the source and the leaf.
bool keeps_order(const Transfer& transfer) {
  std::vector<Digit> digits;
  for (const Digit& digit : transfer.map.digits) {
    if (digit.extent > 1) digits.push_back(digit);
  }
  std::ranges::sort(digits, {}, &Digit::src_step);
  for (std::size_t k = 0; k < digits.size(); ++k) {
    const std::int64_t before = k == 0 ? 0 : digits[k - 1].dst_step;
    if (digits[k].src_step <= 0 || digits[k].dst_step <= before) return false;
  }
  return true;
}

// How all rules together read one array.
struct Readers {
  std::vector<bool> moved;  // per axis, by any; empty: unread
  bool decoded = false;
  bool in_order = true;
  bool is_picked(std::size_t axis) const { return axis < moved.size() && !moved[axis]; }
};

// Adds a rule's reads of the arrays.
void note_reader(const Transfer& transfer, std::span<const std::uint32_t> arrays,
                 std::vector<Readers>& readers) {
  const auto find = [&](std::uint32_t array) -> Readers* {
    const auto at = std::ranges::lower_bound(arrays, array);
    if (at == arrays.end() || *at != array) return nullptr;
    return &readers[static_cast<std::size_t>(at - arrays.begin())];
  };
  std::vector<bool> moved;
  bool in_order = true;
  for (const std::uint32_t source : transfer.sources) {
    Readers* const reader = find(source);
    if (reader == nullptr) continue;
    reader->decoded |= transfer.decode != nullptr;
    if (moved.empty()) {
      moved = moved_axes(transfer);
      in_order = keeps_order(transfer);
    }
    reader->in_order = reader->in_order && in_order;
    reader->moved.resize(moved.size(), false);
    for (std::size_t axis = 0; axis < moved.size(); ++axis)
      reader->moved[axis] = reader->moved[axis] || moved[axis];
  }
  if (!transfer.decode) return;
  transfer.decode->for_each_tensor([&](std::uint32_t tensor) {
    if (Readers* const reader = find(tensor)) reader->decoded = true;
  });
}

// Returns the number of consecutive elements in a stored piece that have the same index on each
// picked axis. Only considers the first `picks` of those axes.
std::uint64_t run_of(const Shape& shape, const Grid& stored, const Readers& readers,
                     std::size_t picks) {
  const std::vector<std::uint8_t> order = storage_order(stored);
  const auto picked = static_cast<std::size_t>(
      std::ranges::count_if(order, [&](std::uint8_t axis) { return readers.is_picked(axis); }));
  std::size_t met = picked;
  std::uint64_t out = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::uint8_t axis = order[k];
    if (readers.is_picked(axis) && met-- <= picks) break;
    out *= std::min(stored.inner[axis], shape[axis]);
    if (stored.inner[axis] > shape[axis]) break;  // only unneeded elements follow
  }
  return out;
}

UnpackedForm form_of(const Grid& stored, std::uint32_t array, const Readers& readers) {
  UnpackedForm out;
  out.array = array;
  out.row_major = readers.decoded;
  Shape piece = stored.inner;
  for (const std::uint8_t axis : storage_order(stored)) {
    if (!readers.is_picked(axis)) continue;
    piece[axis] = 1;
    out.file_order.push_back(axis);
  }
  for (std::size_t axis = 0; axis < piece.rank(); ++axis) {
    if (!readers.is_picked(axis)) out.file_order.push_back(static_cast<std::uint8_t>(axis));
  }
  out.grid = {piece, piece, piece, stored.order};
  return out;
}

// Makes each index of the picked axes a part, or several of the fastest axis if a run needs them.
void part_form(const TensorInfo& info, const Grid& stored, const Readers& readers,
               const Limits& limits, UnpackedForm& form) {
  auto picks = static_cast<std::size_t>(std::ranges::count(readers.moved, false));
  for (; picks > 0; --picks) {
    const std::uint64_t run = packed_bytes(info.dtype, run_of(info.shape, stored, readers, picks));
    const std::uint64_t span = std::max<std::uint64_t>(ceil_div(limits.part_run_bytes, run), 1);
    const std::uint8_t axis = form.file_order[picks - 1];
    if (span > 1 && span >= std::min(info.shape[axis], stored.inner[axis])) continue;
    form.parted = static_cast<std::uint8_t>(picks);
    form.span = span;
    return;
  }
}

}  // namespace

bool SplitArrays::has(std::uint32_t array) const noexcept {
  return find_form(unpacked, array) != nullptr || reads_in_place(array);
}

bool SplitArrays::reads_in_place(std::uint32_t array) const noexcept {
  return std::ranges::binary_search(in_place, array);
}

SplitArrays split_arrays(const Model& model, std::span<const std::uint32_t> arrays,
                         const Limits& limits) {
  std::vector<Readers> all(arrays.size());
  for (const Transfer& transfer : model.transfers) note_reader(transfer, arrays, all);
  const Catalog& catalog = model.catalog();
  SplitArrays out;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const TensorInfo& info = catalog.tensors[arrays[i]];
    const Grid stored = catalog.grid_of(arrays[i]);
    const Readers& readers = all[i];
    const bool is_long = packed_bytes(info.dtype, info.shape.numel()) > limits.unpack_bytes;
    const bool by_parts =
        is_long && catalog.cuts[info.cut].addressable && !readers.decoded && info.shape.numel() > 0;
    const std::uint64_t run = run_of(info.shape, stored, readers, info.shape.rank());
    if (by_parts && readers.in_order && stored.order.empty() &&
        packed_bytes(info.dtype, run) >= limits.part_run_bytes) {
      out.in_place.push_back(arrays[i]);
      continue;
    }
    UnpackedForm form = form_of(stored, arrays[i], readers);
    if (by_parts) part_form(info, stored, readers, limits, form);
    form.first = first;
    first += static_cast<std::uint32_t>(form.parts(info.shape));
    out.unpacked.push_back(std::move(form));
  }
  return out;
}

std::uint64_t heap_bytes(const SplitArrays& arrays) {
  return heap_bytes(arrays.unpacked) + heap_bytes(arrays.in_place);
}

}  // namespace hfshard
