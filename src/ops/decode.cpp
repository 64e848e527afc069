#include "ops/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/coding.h"
#include "ops/float_block.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kByteValues = 256;
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1: E8M0, bias 127.
constexpr std::uint32_t kTwoToMinus127 = 0x00400000U;
constexpr std::uint8_t kE8M0Nan = 0xff;

// A float of `exponent_bits` and `mantissa_bits` below its sign, by the rule of IEEE 754 without
// its special values.
float small_float(unsigned code, int exponent_bits, int mantissa_bits) {
  const unsigned mantissa = code & ((1U << mantissa_bits) - 1);
  const int exponent = static_cast<int>(code >> mantissa_bits & ((1U << exponent_bits) - 1));
  const bool negative = (code >> (exponent_bits + mantissa_bits) & 1U) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const float fraction =
      std::ldexp(static_cast<float>(mantissa), -mantissa_bits) + (exponent > 0 ? 1.0F : 0.0F);
  const float magnitude = std::ldexp(fraction, std::max(exponent, 1) - bias);
  return negative ? -magnitude : magnitude;
}

// Source: OCP 8-bit Floating Point Specification 1.0, section 5.
float f8_e4m3_value(unsigned code) {
  if ((code & 0x7fU) == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  return small_float(code, 4, 3);
}

float f8_e5m2_value(unsigned code) {
  const unsigned magnitude = code & 0x7fU;
  if (magnitude > 0x7cU) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude == 0x7cU) {
    const float infinity = std::numeric_limits<float>::infinity();
    return (code & 0x80U) != 0 ? -infinity : infinity;
  }
  return small_float(code, 5, 2);
}

float code_value(Code code, unsigned bits) {
  switch (code) {
    case Code::f8_e4m3:
      return f8_e4m3_value(bits);
    case Code::f8_e5m2:
      return f8_e5m2_value(bits);
    case Code::f4_e2m1:
      return small_float(bits, 2, 1);
    case Code::int4:
      return static_cast<float>(bits) - 8.0F;
  }
  HFSHARD_CHECK(false);
  return 0;
}

// The one or two values of every byte.
struct CodeTable {
  std::array<std::array<float, 2>, kByteValues> values{};
  explicit CodeTable(Code code) {
    for (unsigned byte = 0; byte < kByteValues; ++byte) {
      const bool packed = code_bits(code) == 4;
      values[byte][0] = code_value(code, packed ? byte & 15U : byte);
      values[byte][1] = packed ? code_value(code, byte >> 4) : 0.0F;
    }
  }
};

const CodeTable& table_of(Code code) {
  static const std::array<CodeTable, 4> kTables = {CodeTable(Code::f8_e4m3),
                                                   CodeTable(Code::f8_e5m2),
                                                   CodeTable(Code::f4_e2m1), CodeTable(Code::int4)};
  return kTables[static_cast<std::size_t>(code)];
}

float scale_value(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
      return load_le<float>(at);
    case DType::bf16:
      return bf16_to_f32(load_le<std::uint16_t>(at));
    case DType::f16:
      return f16_to_f32(load_le<std::uint16_t>(at));
    default: {
      const auto byte = load_le<std::uint8_t>(at);
      if (dtype == DType::f8_e8m0 && byte == kE8M0Nan)
        return std::numeric_limits<float>::quiet_NaN();
      // The byte is the exponent of a float: the bias is the same. 2^-127 is subnormal; 255 gives
      // infinity, as 2^128 in f32 does.
      return std::bit_cast<float>(byte == 0 ? kTwoToMinus127 : std::uint32_t{byte} << 23);
    }
  }
}

// Walks the elements of one call in blocks; within a block, in runs that share a scale.
class Decoder {
 public:
  Decoder(const BlockScale& form, std::uint64_t begin, std::uint64_t count,
          std::span<const std::byte> scales)
      : form_(form),
        table_(table_of(form.code)),
        first_scale_(scale_range(form, begin, count).first),
        scales_(scales),
        scale_bytes_(size_bits(form.scale_dtype) / 8),
        row_(begin / form.cols),
        col_(begin % form.cols) {}

  // The next `count` values; what follows them in the block is zero.
  void next(const std::byte* codes, std::size_t count, FloatBlock& block) {
    widen(codes, count, block);
    for (std::size_t at = 0; at < count;) {
      const std::uint64_t in_block = form_.col_block - col_ % form_.col_block;
      const auto run = static_cast<std::size_t>(
          std::min({in_block, form_.cols - col_, static_cast<std::uint64_t>(count - at)}));
      std::fill_n(factors_.begin() + static_cast<std::ptrdiff_t>(at), run, scale_here());
      at += run;
      col_ += run;
      if (col_ == form_.cols) {
        col_ = 0;
        ++row_;
      }
    }
    std::fill(factors_.begin() + static_cast<std::ptrdiff_t>(count), factors_.end(), 0.0F);
    for (std::size_t i = 0; i < kFloatBlock; ++i) block[i] *= factors_[i];
  }

 private:
  float scale_here() const {
    const std::uint64_t matrix = row_ / form_.rows;
    const std::uint64_t row = row_ % form_.rows;
    const std::uint64_t index = matrix * form_.scales_per_matrix() +
                                row / form_.row_block * form_.scales_per_row() +
                                col_ / form_.col_block;
    return scale_value(form_.scale_dtype,
                       scales_.subspan((index - first_scale_) * scale_bytes_, scale_bytes_).data());
  }

  void widen(const std::byte* codes, std::size_t count, FloatBlock& block) const {
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(count), block.end(), 0.0F);
    if (code_bits(form_.code) == 8) {
      for (std::size_t i = 0; i < count; ++i)
        block[i] = table_.values[std::to_integer<std::size_t>(codes[i])][0];
      return;
    }
    for (std::size_t i = 0; i < count / 2; ++i) {
      const auto& pair = table_.values[std::to_integer<std::size_t>(codes[i])];
      std::memcpy(&block[2 * i], pair.data(), sizeof pair);
    }
    if (count % 2 != 0)
      block[count - 1] = table_.values[std::to_integer<std::size_t>(codes[count / 2])][0];
  }

  const BlockScale& form_;
  const CodeTable& table_;
  std::uint64_t first_scale_;
  std::span<const std::byte> scales_;
  std::size_t scale_bytes_;
  std::uint64_t row_;
  std::uint64_t col_;
  FloatBlock factors_{};
};

template <typename To>
std::uint64_t decode_all(Decoder& decoder, const Value& value, std::uint64_t count,
                         std::uint32_t bits_per_code, const std::byte* codes, std::byte* dst) {
  FloatBlock block;
  std::array<typename To::Bits, kFloatBlock> bits;
  std::uint64_t overflows = 0;
  for (std::uint64_t done = 0; done < count; done += kFloatBlock) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(kFloatBlock, count - done));
    decoder.next(codes + done * bits_per_code / 8, now, block);
    const FloatBlock source = block;
    compute_block(value, block);
    narrow_block<To>(block, bits);
    overflows += count_overflows<To>(source, bits);
    std::memcpy(dst + done * sizeof(typename To::Bits), bits.data(),
                now * sizeof(typename To::Bits));
  }
  return overflows;
}

}  // namespace

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::f8_e4m3:
      return "f8_e4m3";
    case Code::f8_e5m2:
      return "f8_e5m2";
    case Code::f4_e2m1:
      return "f4_e2m1";
    case Code::int4:
      return "int4";
  }
  return "";
}

std::uint32_t code_bits(Code code) noexcept {
  return code == Code::f4_e2m1 || code == Code::int4 ? 4 : 8;
}

std::uint64_t BlockScale::scales_per_row() const noexcept { return ceil_div(cols, col_block); }

std::uint64_t BlockScale::scales_per_matrix() const noexcept {
  return ceil_div(rows, row_block) * scales_per_row();
}

ScaleRange scale_range(const BlockScale& form, std::uint64_t begin, std::uint64_t count) noexcept {
  if (count == 0) return {};
  const auto scale_row = [&](std::uint64_t element) {
    const std::uint64_t row = element / form.cols;
    return row / form.rows * ceil_div(form.rows, form.row_block) + row % form.rows / form.row_block;
  };
  const std::uint64_t last = begin + count - 1;
  const std::uint64_t per_row = form.scales_per_row();
  if (begin / form.cols == last / form.cols) {  // within one row
    const std::uint64_t at = scale_row(begin) * per_row + begin % form.cols / form.col_block;
    return {at, scale_row(last) * per_row + last % form.cols / form.col_block - at + 1};
  }
  const std::uint64_t first_row = scale_row(begin);
  return {first_row * per_row, (scale_row(last) - first_row + 1) * per_row};
}

std::uint64_t most_scales(const BlockScale& form, std::uint64_t count) noexcept {
  // A run touches at most this many rows, and each row needs at most one row of scales.
  return (count / form.cols + 2) * form.scales_per_row();
}

bool is_scale_dtype(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 ||
         dtype == DType::f8_e8m0 || dtype == DType::u8;
}

void apply_decode(const BlockScale& form, const Value& value, DType to, std::uint64_t begin,
                  std::uint64_t count, std::span<const std::byte> codes,
                  std::span<const std::byte> scales, std::span<std::byte> dst,
                  std::uint64_t& overflows) {
  const std::uint32_t bits = code_bits(form.code);
  HFSHARD_CHECK(begin * bits % 8 == 0 && codes.size() == ceil_div(count * bits, 8));
  HFSHARD_CHECK(dst.size() == packed_bytes(to, count));
  HFSHARD_CHECK(can_apply_value(value, DType::f32, to));
  Decoder decoder(form, begin, count, scales);
  if (to == DType::bf16) {
    overflows += decode_all<Bf16>(decoder, value, count, bits, codes.data(), dst.data());
  } else if (to == DType::f16) {
    overflows += decode_all<F16>(decoder, value, count, bits, codes.data(), dst.data());
  } else {
    overflows += decode_all<F32>(decoder, value, count, bits, codes.data(), dst.data());
  }
}

}  // namespace hfshard
