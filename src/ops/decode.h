#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "ops/value.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// How the codes of a quantised tensor become numbers.
enum class Code : std::uint8_t {
  f8_e4m3,  ///< OCP 8-bit float, 1-4-3, no infinities: values up to 448
  f8_e5m2,  ///< OCP 8-bit float, 1-5-2, with infinities
  f4_e2m1,  ///< OCP 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  int4,     ///< 4-bit integer stored as code = value + 8
};

/// Name as in a family's `decode` and in our JSON: "f8_e4m3".
std::string_view to_string(Code code) noexcept;
/// Bits of one code: 8 or 4. Of two 4-bit codes in a byte the first is the low nibble.
std::uint32_t code_bits(Code code) noexcept;

/// The codes are a stack of matrices of `rows` x `cols`, each cut into blocks of `row_block` x
/// `col_block` from its first element on (the last ones may be smaller); one scale per block,
/// row-major. value = f32(code) * f32(scale), in f32.
/// Sources: deepseek-ai/DeepSeek-V3 inference/kernel.py (weight_dequant); openai/gpt-oss
/// gpt_oss/torch/weights.py (_get_mxfp4_tensor); vllm-project/compressed-tensors pack_quantized
/// (int4, groups along the input axis).
struct BlockScale {
  Code code = Code::f8_e4m3;
  DType scale_dtype = DType::f32;  ///< f32, bf16, f16; f8_e8m0 or u8: 2^(byte - 127)
  std::uint64_t rows = 1;
  std::uint64_t cols = 1;
  std::uint64_t row_block = 1;
  std::uint64_t col_block = 1;

  std::uint64_t scales_per_row() const noexcept;  ///< along the columns
  std::uint64_t scales_per_matrix() const noexcept;
  friend bool operator==(const BlockScale&, const BlockScale&) = default;
};

/// Scales [first, first + count) of the whole scale tensor.
struct ScaleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// The smallest contiguous range of scales that elements [begin, begin + count) need.
ScaleRange scale_range(const BlockScale& form, std::uint64_t begin, std::uint64_t count) noexcept;
/// Upper bound of ScaleRange::count over all runs of `count` elements.
std::uint64_t most_scales(const BlockScale& form, std::uint64_t count) noexcept;

/// Whether scales can have this dtype.
bool is_scale_dtype(DType dtype) noexcept;

/// Decodes elements [begin, begin + count) of a tensor: f32(code) * scale, then `value`, in f32,
/// rounded once to `to` (bf16, f16, f32), nearest even. `codes` holds them packed (a 4-bit `begin`
/// is even), `scales` those of scale_range(). A NaN code or scale gives NaN; a u8 scale of 255 is
/// 2^128, which is infinite, a f8_e8m0 one is NaN. Adds to `overflows` the finite values that
/// became infinite. `simd` changes no bits. Thread-safe.
void apply_decode(const BlockScale& form, const Value& value, DType to, std::uint64_t begin,
                  std::uint64_t count, std::span<const std::byte> codes,
                  std::span<const std::byte> scales, std::span<std::byte> dst,
                  std::uint64_t& overflows, Simd simd = best_simd());

}  // namespace hfshard
