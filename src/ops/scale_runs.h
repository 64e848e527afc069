#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/checked.h"
#include "base/coding.h"
#include "base/floats.h"
#include "ops/code_values.h"
#include "ops/decode.h"

#include "hfshard/dtype.h"

namespace hfshard {

// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1: E8M0, bias 127.
inline constexpr std::uint32_t kTwoToMinus127 = 0x00400000U;
inline constexpr std::uint8_t kE8M0Nan = 0xff;

inline float scale_value(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
      return load_le<float>(at);
    case DType::bf16:
      return bf16_to_f32(load_le<std::uint16_t>(at));
    case DType::f16:
      return f16_to_f32(load_le<std::uint16_t>(at));
    case DType::f8_e4m3:
      return F8E4M3::value(load_le<std::uint8_t>(at));
    default: {
      const auto byte = load_le<std::uint8_t>(at);
      if (dtype == DType::f8_e8m0 && byte == kE8M0Nan)
        return std::numeric_limits<float>::quiet_NaN();
      // The byte is a float's exponent, with the same bias. 2^-127 is subnormal. 255 becomes
      // infinity, as 2^128 does in f32.
      return std::bit_cast<float>(byte == 0 ? kTwoToMinus127 : std::uint32_t{byte} << 23);
    }
  }
}

/// Returns the rows of codes whose zero points share a word.
inline std::uint64_t rows_per_word(ZeroPoints zeros) noexcept {
  return zeros == ZeroPoints::packed4 ? 8 : 4;
}

inline bool are_packed(ZeroPoints zeros) noexcept {
  return zeros == ZeroPoints::packed4 || zeros == ZeroPoints::packed8;
}

inline constexpr std::uint64_t kWordBytes = 4;

/// Returns the bytes of the words with the zero points for a row of scales.
inline std::uint64_t word_row_bytes(const BlockScale& form) noexcept {
  return form.scales_per_row() * kWordBytes;
}

/// Returns the row of words with the zero points for a row of codes, counted over all matrices.
inline std::uint64_t word_row_of(const BlockScale& form, std::uint64_t row) noexcept {
  const std::uint64_t per_word = rows_per_word(form.zeros);
  return row / form.rows * ceil_div(form.rows, per_word) + row % form.rows / per_word;
}

/// The scales of whole blocks in a row. A row of 7168 codes has 56 blocks of 128.
struct ScaleBatch {
  using Numbers = std::array<float, 64>;
  Numbers scales{};
  Numbers zeros{};
  std::size_t count = 0;
};

/// Walks the elements of one call in runs that share a scale. Only its start divides.
class ScaleRuns {
 public:
  ScaleRuns(const BlockScale& form, std::uint64_t begin, std::uint64_t count, const Scales& scales)
      : form_(form),
        scales_(scales.scales),
        zeros_(scales.zeros),
        factor_(scales.factor),
        scale_bytes_(size_bits(form.scale_dtype) / 8),
        per_row_(form.scales_per_row()) {
    const std::uint64_t row = begin / form.cols;
    first_row_ = at_row_ = row;
    const std::uint64_t column = begin % form.cols;
    row_ = row % form.rows;
    row_in_block_ = row_ % form.row_block;
    block_ = column / form.col_block;
    row_scales_ = row / form.rows * form.scales_per_matrix() + row_ / form.row_block * per_row_ -
                  scale_range(form, begin, count).first;
    begin_block(column % form.col_block);
  }

  float scale() const noexcept {
    return scaled(scale_value(form_.scale_dtype, &scales_[(row_scales_ + block_) * scale_bytes_]));
  }

  float zero() const noexcept { return form_.zeros == ZeroPoints::none ? 0.0F : zero_at(block_); }

  // Takes whole blocks of this row from here on, with at most `most` elements.
  void take_blocks(std::uint64_t most, ScaleBatch& out) noexcept {
    out.count = 0;
    if (left_ != form_.col_block || left_ > most) return;
    const std::uint64_t whole = form_.cols / form_.col_block - block_;
    const std::uint64_t count =
        std::min({std::uint64_t{out.scales.size()}, whole, most / form_.col_block});
    out.count = static_cast<std::size_t>(count);
    copy_scales(out);
    copy_zeros(out);
    block_ += count - 1;
    next_block();
  }

  // Returns the length of the run that begins here, at most `most`, and moves behind it.
  std::size_t take(std::uint64_t most) noexcept {
    const std::uint64_t count = std::min(most, left_);
    left_ -= count;
    if (left_ == 0) next_block();
    return static_cast<std::size_t>(count);
  }

 private:
  float scaled(float scale) const noexcept {
    if (form_.factor == Factor::none) return scale;
    return form_.factor == Factor::multiplies ? scale * factor_ : scale / factor_;
  }

  float zero_at(std::uint64_t block) const noexcept {
    if (form_.zeros == ZeroPoints::int8)
      return Int8::value(load_le<std::uint8_t>(&zeros_[row_scales_ + block]));
    const std::uint64_t words = word_row_of(form_, at_row_) - word_row_of(form_, first_row_);
    const auto word =
        load_le<std::uint32_t>(&zeros_[words * word_row_bytes(form_) + block * kWordBytes]);
    const auto place = static_cast<std::uint32_t>(row_ % rows_per_word(form_.zeros));
    if (form_.zeros == ZeroPoints::packed4) return Int4::value(word >> (4 * place) & 15U);
    return Uint8::value(word >> (8 * place) & 255U);
  }

  // Copies the scales of out.count blocks from here on. NVFP4 has one for each 16 codes, so it has
  // a loop that the compiler vectorizes.
  void copy_scales(ScaleBatch& out) const noexcept {
    const std::byte* from = &scales_[(row_scales_ + block_) * scale_bytes_];
    const std::size_t count = out.count;
    if (form_.scale_dtype == DType::f8_e4m3) {
      for (std::size_t i = 0; i < count; ++i)
        out.scales[i] = F8E4M3::value(std::to_integer<std::uint32_t>(from[i]));
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out.scales[i] = scale_value(form_.scale_dtype, from + i * scale_bytes_);
    }
    if (form_.factor == Factor::none) return;
    for (std::size_t i = 0; i < count; ++i) out.scales[i] = scaled(out.scales[i]);
  }

  void copy_zeros(ScaleBatch& out) const noexcept {
    if (form_.zeros == ZeroPoints::none) return;  // they are all 0
    for (std::size_t i = 0; i < out.count; ++i) out.zeros[i] = zero_at(block_ + i);
  }

  void begin_block(std::uint64_t skipped) noexcept {
    left_ = std::min(form_.col_block, form_.cols - block_ * form_.col_block) - skipped;
  }

  void next_block() noexcept {
    if (++block_ == per_row_) {
      block_ = 0;
      ++at_row_;
      ++row_in_block_;
      if (++row_ == form_.rows) row_ = 0;
      if (row_ == 0 || row_in_block_ == form_.row_block) {  // the last block can have fewer
        row_in_block_ = 0;
        row_scales_ += per_row_;
      }
    }
    begin_block(0);
  }

  const BlockScale& form_;
  std::span<const std::byte> scales_;
  std::span<const std::byte> zeros_;
  float factor_;
  std::size_t scale_bytes_;
  std::uint64_t per_row_;
  std::uint64_t first_row_ = 0;  // over all matrices
  std::uint64_t at_row_ = 0;
  std::uint64_t row_ = 0;
  std::uint64_t row_in_block_ = 0;
  std::uint64_t block_ = 0;       // in the row
  std::uint64_t row_scales_ = 0;  // of the row, modulo 2^64
  std::uint64_t left_ = 0;        // elements left in the block
};

}  // namespace hfshard
