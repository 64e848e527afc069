#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

Shape::Shape(std::initializer_list<std::uint64_t> dims)
    : Shape(std::span<const std::uint64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::uint64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("an array has {} dims; hfshard supports at most {}", dims.size(), kMaxRank));
  }
  std::ranges::copy(dims, dims_.begin());
  rank_ = static_cast<std::uint8_t>(dims.size());
}

void Shape::push_back(std::uint64_t extent) { insert(rank_, extent); }

void Shape::insert(std::size_t axis, std::uint64_t extent) {
  HFSHARD_CHECK(axis <= rank_);
  if (rank_ == kMaxRank) {
    throw Error(ErrorCode::unsupported, fmt::format("an array has more than {} dims", kMaxRank));
  }
  for (std::size_t i = rank_; i > axis; --i) dims_[i] = dims_[i - 1];
  dims_[axis] = extent;
  ++rank_;
}

std::uint64_t Shape::numel() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : *this) {
    const auto next = checked_mul(product, extent);
    if (!next) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("shape {} has more than 2^64 elements", to_string(*this)));
    }
    product = *next;
  }
  return product;
}

Shape Shape::strides() const {
  Shape out = *this;
  std::uint64_t stride = 1;
  for (std::size_t axis = rank_; axis-- > 0;) {
    out.dims_[axis] = stride;
    stride *= dims_[axis];
  }
  return out;
}

bool operator==(const Shape& a, const Shape& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_string(const Shape& shape) {
  if (shape.rank() == 0) return "scalar";
  return fmt::format("{}", fmt::join(shape.begin(), shape.end(), "x"));
}

}  // namespace hfshard
