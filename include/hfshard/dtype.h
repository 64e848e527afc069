#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hfshard {

/// Element types of the safetensors format; never relabeled (F8 is not U8).
/// Source: huggingface/safetensors safetensors/src/tensor.rs, enum Dtype.
enum class DType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
inline constexpr std::size_t kDTypeCount = 22;

/// Element size in bits (4-bit and 6-bit types exist).
std::uint32_t size_bits(DType dtype) noexcept;
/// Name in safetensors headers: "BF16", "F8_E4M3", "BOOL".
std::string_view safetensors_name(DType dtype) noexcept;
/// Name on our command line and in our JSON: "bf16", "f8_e4m3", "bool".
std::string_view to_string(DType dtype) noexcept;
std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept;
std::optional<DType> dtype_from_string(std::string_view name) noexcept;
/// True for the types whose values are real numbers with a fraction (f16, bf16, f32, f64, f8 kinds,
/// ...).
bool is_float(DType dtype) noexcept;

/// Extents of an array, slow to fast; up to 8 dims, inline. `[]` is a scalar; a zero dim is legal.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<std::uint64_t> dims);
  /// Throws: unsupported if there are more than 8 dims.
  explicit Shape(std::span<const std::uint64_t> dims);

  std::size_t rank() const noexcept { return rank_; }
  std::uint64_t operator[](std::size_t axis) const noexcept { return dims_[axis]; }
  std::uint64_t& operator[](std::size_t axis) noexcept { return dims_[axis]; }
  const std::uint64_t* begin() const noexcept { return dims_.data(); }
  const std::uint64_t* end() const noexcept { return dims_.data() + rank_; }
  /// Appends a dim. Throws: unsupported beyond 8.
  void push_back(std::uint64_t extent);
  void insert(std::size_t axis, std::uint64_t extent);
  /// Product of the extents. Throws: bad_input on overflow.
  std::uint64_t numel() const;
  /// Row-major strides in elements.
  Shape strides() const;
  friend bool operator==(const Shape& a, const Shape& b) noexcept;

 private:
  std::array<std::uint64_t, kMaxRank> dims_{};
  std::uint8_t rank_ = 0;
};

/// `2048x1024`; a scalar is `scalar`.
std::string to_string(const Shape& shape);
/// Bytes of `numel` packed elements. Throws: bad_input on overflow, or when sub-byte elements do
/// not fill the last byte.
std::uint64_t packed_bytes(DType dtype, std::uint64_t numel);

}  // namespace hfshard
