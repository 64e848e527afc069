#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "ops/value.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// The encoding of a quantized tensor's codes.
enum class Code : std::uint8_t {
  f8_e4m3,  ///< OCP 8-bit float, 1-4-3, no infinities: values up to 448
  f8_e5m2,  ///< OCP 8-bit float, 1-5-2, with infinities
  f4_e2m1,  ///< OCP 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  int4,     ///< 4-bit integer stored as code = value + 8
  int8,     ///< 8-bit integer in two's complement
  uint8,    ///< 8-bit integer stored as code = value + 128
};

/// Returns the name in a family's `decode` and in hfshard's JSON: "f8_e4m3".
std::string_view to_string(Code code) noexcept;
/// Returns the bits of one code: 8 or 4. The first of two 4-bit codes in a byte is the low nibble.
std::uint32_t code_bits(Code code) noexcept;
/// Returns the dtype in which rules see codes that are stored as `stored`: f4 for 4-bit codes, u8
/// for 8-bit codes in words, else `stored`.
DType codes_dtype(Code code, DType stored) noexcept;

/// The place of a scale's zero point, with which value = (f32(code) - f32(zero point)) * scale.
enum class ZeroPoints : std::uint8_t {
  none,
  int8,  ///< one int8 per scale, in order
  /// Like `int4`, with eight rows in a 32-bit word, lowest first. Each row of scales is for one row
  /// of codes.
  packed4,
  /// Like `uint8`, with four rows in a word. Each row of scales is for one row of codes.
  packed8,
};

/// The effect of a tensor's one factor on each of its scales, in f32.
enum class Factor : std::uint8_t { none, multiplies, divides };

/// The codes are a stack of matrices of `rows` x `cols`. Each is cut into blocks of `row_block` x
/// `col_block` from its first element on (the last ones can be smaller). There is one scale per
/// block, row-major. value = f32(code) * f32(scale), in f32.
/// Sources: deepseek-ai/DeepSeek-V3 inference/kernel.py (weight_dequant); openai/gpt-oss
/// gpt_oss/torch/weights.py (_get_mxfp4_tensor); vllm-project/compressed-tensors
/// src/compressed_tensors/quantization/lifecycle/forward_helpers.py (_dequantize: zero points,
/// factors, rounding) and compressors/pack_quantized/helpers.py (unpack_from_int32); NVIDIA/
/// Model-Optimizer modelopt/torch/quantization/qtensor/nvfp4_tensor.py (weight_scale_2 multiplies).
struct BlockScale {
  Code code = Code::f8_e4m3;
  /// One of f32, bf16, f16, f8_e4m3. Or f8_e8m0 or u8, which mean 2^(byte - 127).
  DType scale_dtype = DType::f32;
  std::uint64_t rows = 1;
  std::uint64_t cols = 1;
  std::uint64_t row_block = 1;
  std::uint64_t col_block = 1;
  ZeroPoints zeros = ZeroPoints::none;
  Factor factor = Factor::none;
  /// Rounds values to f16 before a value rule, if they become bf16.
  bool rounds_to_half = false;

  std::uint64_t scales_per_row() const noexcept;  ///< along the columns
  std::uint64_t scales_per_matrix() const noexcept;
  friend bool operator==(const BlockScale&, const BlockScale&) = default;
};

/// The scales [first, first + count) of the whole scale tensor.
struct ScaleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Returns the smallest contiguous range of scales for elements [begin, begin + count).
ScaleRange scale_range(const BlockScale& form, std::uint64_t begin, std::uint64_t count) noexcept;
/// Returns an upper bound of ScaleRange::count over all runs of `count` elements.
std::uint64_t most_scales(const BlockScale& form, std::uint64_t count) noexcept;

/// Returns the bytes of the zero points for elements [begin, begin + count), from the first one on.
ByteRange zero_range(const BlockScale& form, std::uint64_t begin, std::uint64_t count) noexcept;
/// Returns an upper bound of the length of zero_range over all runs of `count` elements.
std::uint64_t most_zero_bytes(const BlockScale& form, std::uint64_t count) noexcept;
/// Returns the bytes of the zero points of one matrix.
std::uint64_t zero_bytes_per_matrix(const BlockScale& form) noexcept;

/// Returns whether scales can have this dtype.
bool is_scale_dtype(DType dtype) noexcept;

/// The inputs for decoding, apart from codes.
struct Scales {
  std::span<const std::byte> scales;   ///< of scale_range()
  std::span<const std::byte> zeros{};  ///< of zero_range()
  float factor = 1;                    ///< unused without BlockScale::factor
};

/// Decodes elements [begin, begin + count) of a tensor: f32(code) * scale, then `value`, in f32.
/// Rounds once to `to` (bf16, f16, f32), to nearest even. `codes` has them packed (a 4-bit `begin`
/// is even). A NaN code or scale gives NaN. A u8 scale of 255 is 2^128, which is infinite; a
/// f8_e8m0 one is NaN. Adds to `overflows` the finite values that became infinite. `simd` doesn't
/// change bits. Thread-safe.
void apply_decode(const BlockScale& form, const Value& value, DType to, std::uint64_t begin,
                  std::uint64_t count, std::span<const std::byte> codes, const Scales& scales,
                  std::span<std::byte> dst, std::uint64_t& overflows, Simd simd = best_simd());
/// Decodes with scales alone.
inline void apply_decode(const BlockScale& form, const Value& value, DType to, std::uint64_t begin,
                         std::uint64_t count, std::span<const std::byte> codes,
                         std::span<const std::byte> scales, std::span<std::byte> dst,
                         std::uint64_t& overflows, Simd simd = best_simd()) {
  apply_decode(form, value, to, begin, count, codes, Scales{scales}, dst, overflows, simd);
}

}  // namespace hfshard
