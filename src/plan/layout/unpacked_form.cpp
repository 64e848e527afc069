#include "plan/layout/unpacked_form.h"

#include <algorithm>

#include "base/checked.h"
#include "base/heap.h"

#include "hfshard/error.h"

namespace hfshard {

std::uint64_t UnpackedForm::span_along(std::size_t k) const noexcept {
  return k + 1 == parted ? span : 1;
}

bool UnpackedForm::is_parted(std::size_t axis) const {
  const auto end = file_order.begin() + parted;
  return std::find(file_order.begin(), end, axis) != end;
}

std::uint64_t UnpackedForm::parts_along(const Shape& array_shape, std::size_t k) const {
  return ceil_div(array_shape[file_order[k]], span_along(k));
}

std::uint64_t UnpackedForm::parts(const Shape& array_shape) const {
  std::uint64_t out = 1;
  for (std::size_t k = 0; k < parted; ++k) out *= parts_along(array_shape, k);
  return out;
}

std::uint64_t UnpackedForm::part_of(const Shape& array_shape, std::uint64_t element) const {
  const Shape strides = array_shape.strides();
  std::uint64_t out = 0;
  for (std::size_t k = 0; k < parted; ++k) {
    const std::uint8_t axis = file_order[k];
    const std::uint64_t index = element / strides[axis] % array_shape[axis];
    out = out * parts_along(array_shape, k) + index / span_along(k);
  }
  return out;
}

Box UnpackedForm::box_of(const Shape& array_shape, std::uint64_t part) const {
  Box out;
  for (const std::uint64_t extent : array_shape) {
    out.begin.push_back(0);
    out.extent.push_back(extent);
  }
  for (std::size_t k = parted; k-- > 0;) {
    const std::uint8_t axis = file_order[k];
    const std::uint64_t count = parts_along(array_shape, k);
    out.begin[axis] = part % count * span_along(k);
    out.extent[axis] = std::min(span_along(k), array_shape[axis] - out.begin[axis]);
    part /= count;
  }
  return out;
}

std::uint64_t UnpackedForm::piece_begin(const Shape& array_shape, const Shape& piece) const {
  const Shape counts = chunk_counts(array_shape, grid.chunk);
  std::uint64_t number = parted == 0 ? 0 : piece[file_order[parted - 1U]] % span;
  for (std::size_t k = parted; k < file_order.size(); ++k)
    number = number * counts[file_order[k]] + piece[file_order[k]];
  return number * grid.chunk.numel();
}

std::uint64_t UnpackedForm::elements(const Shape& array_shape) const {
  if (row_major) return array_shape.numel();
  const Shape counts = chunk_counts(array_shape, grid.chunk);
  std::uint64_t out = span * grid.chunk.numel();
  for (std::size_t k = parted; k < file_order.size(); ++k) out *= counts[file_order[k]];
  return out;
}

const UnpackedForm* find_form(const std::vector<UnpackedForm>& forms,
                              std::uint32_t array) noexcept {
  const auto at = std::ranges::lower_bound(forms, array, {}, &UnpackedForm::array);
  return at != forms.end() && at->array == array ? &*at : nullptr;
}

const UnpackedForm& form_of_part(const std::vector<UnpackedForm>& forms, std::uint32_t number) {
  const auto behind = std::ranges::upper_bound(forms, number, {}, &UnpackedForm::first);
  HFSHARD_CHECK(behind != forms.begin());
  return *(behind - 1);
}

std::uint64_t heap_bytes(const UnpackedForm& form) {
  return heap_bytes(form.grid.order) + heap_bytes(form.file_order);
}

}  // namespace hfshard
