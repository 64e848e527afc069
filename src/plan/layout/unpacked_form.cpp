#include "plan/layout/unpacked_form.h"

#include <algorithm>

#include "base/heap.h"
#include "plan/layout/cut_grid.h"

namespace hfshard {
namespace {

// The axes of a source along which a rule takes more than one index.
std::vector<bool> moved_axes(const Transfer& transfer) {
  const Shape& shape = transfer.source_shape;
  const Shape strides = shape.strides();
  std::vector<bool> out(shape.rank(), false);
  for (const Digit& digit : split_by_axes(inverse(transfer.map), shape).digits) {
    if (digit.extent > 1 && digit.dst_step != 0) out[axis_of(strides, digit.dst_step)] = true;
  }
  return out;
}

// How one array is read by all rules together.
struct Readers {
  std::vector<bool> moved;  // per axis, by any of them; empty: nobody reads it
  bool decoded = false;
};

// Adds what a rule reads of the arrays.
void note_reader(const Transfer& transfer, std::span<const std::uint32_t> arrays,
                 std::vector<Readers>& readers) {
  const auto find = [&](std::uint32_t array) -> Readers* {
    const auto at = std::ranges::lower_bound(arrays, array);
    if (at == arrays.end() || *at != array) return nullptr;
    return &readers[static_cast<std::size_t>(at - arrays.begin())];
  };
  std::vector<bool> moved;
  for (const std::uint32_t source : transfer.sources) {
    Readers* const reader = find(source);
    if (reader == nullptr) continue;
    reader->decoded |= transfer.decode != nullptr;
    if (moved.empty()) moved = moved_axes(transfer);
    reader->moved.resize(moved.size(), false);
    for (std::size_t axis = 0; axis < moved.size(); ++axis)
      reader->moved[axis] = reader->moved[axis] || moved[axis];
  }
  if (!transfer.decode) return;
  for (const std::uint32_t scale : transfer.decode->scales) {
    if (Readers* const reader = find(scale)) reader->decoded = true;
  }
}

UnpackedForm form_of(const Catalog& catalog, std::uint32_t array, const Readers& readers) {
  UnpackedForm out;
  out.array = array;
  out.row_major = readers.decoded;
  const Grid stored = catalog.grid_of(array);
  Shape piece = stored.inner;
  const auto picked = [&](std::size_t axis) {
    return axis < readers.moved.size() && !readers.moved[axis];
  };
  for (std::size_t axis = 0; axis < piece.rank(); ++axis) {
    if (!picked(axis)) continue;
    piece[axis] = 1;
    out.file_order.push_back(static_cast<std::uint8_t>(axis));
  }
  for (std::size_t axis = 0; axis < piece.rank(); ++axis) {
    if (!picked(axis)) out.file_order.push_back(static_cast<std::uint8_t>(axis));
  }
  out.grid = {piece, piece, piece, stored.order};
  return out;
}

}  // namespace

std::uint64_t UnpackedForm::piece_begin(const Shape& array_shape, const Shape& piece) const {
  const Shape counts = chunk_counts(array_shape, grid.chunk);
  std::uint64_t number = 0;
  for (const std::uint8_t axis : file_order) number = number * counts[axis] + piece[axis];
  return number * grid.chunk.numel();
}

std::uint64_t UnpackedForm::elements(const Shape& array_shape) const {
  if (row_major) return array_shape.numel();
  return chunk_counts(array_shape, grid.chunk).numel() * grid.chunk.numel();
}

std::vector<UnpackedForm> unpacked_forms(const Model& model,
                                         std::span<const std::uint32_t> arrays) {
  std::vector<Readers> readers(arrays.size());
  for (const Transfer& transfer : model.transfers) note_reader(transfer, arrays, readers);
  std::vector<UnpackedForm> out;
  out.reserve(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    out.push_back(form_of(model.catalog(), arrays[i], readers[i]));
  return out;
}

const UnpackedForm* find_form(const std::vector<UnpackedForm>& forms,
                              std::uint32_t array) noexcept {
  const auto at = std::ranges::lower_bound(forms, array, {}, &UnpackedForm::array);
  return at != forms.end() && at->array == array ? &*at : nullptr;
}

std::uint64_t heap_bytes(const UnpackedForm& form) {
  return heap_bytes(form.grid.order) + heap_bytes(form.file_order);
}

}  // namespace hfshard
