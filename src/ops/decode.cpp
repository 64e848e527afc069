#include "ops/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/checked.h"
#include "base/coding.h"
#include "ops/code_values.h"
#include "ops/even_avx2.h"
#include "ops/even_avx512.h"
#include "ops/even_runs.h"
#include "ops/expand_codes.h"
#include "ops/float_block.h"
#include "ops/simd.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Shorter runs aren't worth a whole block.
constexpr std::size_t kShortRun = 8;
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1: E8M0, bias 127.
constexpr std::uint32_t kTwoToMinus127 = 0x00400000U;
constexpr std::uint8_t kE8M0Nan = 0xff;

float scale_value(DType dtype, const std::byte* at) {
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

// Returns the rows of codes whose zero points share a word.
std::uint64_t rows_per_word(ZeroPoints zeros) noexcept {
  return zeros == ZeroPoints::packed4 ? 8 : 4;
}

bool are_packed(ZeroPoints zeros) noexcept {
  return zeros == ZeroPoints::packed4 || zeros == ZeroPoints::packed8;
}

constexpr std::uint64_t kWordBytes = 4;

// Returns the bytes of the words with the zero points for a row of scales.
std::uint64_t word_row_bytes(const BlockScale& form) noexcept {
  return form.scales_per_row() * kWordBytes;
}

// Returns the row of words with the zero points for a row of codes, counted over all matrices.
std::uint64_t word_row_of(const BlockScale& form, std::uint64_t row) noexcept {
  const std::uint64_t per_word = rows_per_word(form.zeros);
  return row / form.rows * ceil_div(form.rows, per_word) + row % form.rows / per_word;
}

// The scales of whole blocks in a row. A row of 7168 codes has 56 blocks of 128.
struct ScaleBatch {
  std::array<float, 64> scales{};
  std::array<float, 64> zeros{};
  std::size_t count = 0;
};

// Walks the elements of one call in runs that share a scale. Only its start divides.
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
    const float scale =
        scale_value(form_.scale_dtype, &scales_[(row_scales_ + block_) * scale_bytes_]);
    if (form_.factor == Factor::none) return scale;
    return form_.factor == Factor::multiplies ? scale * factor_ : scale / factor_;
  }

  float zero() const noexcept {
    if (form_.zeros == ZeroPoints::none) return 0;
    if (form_.zeros == ZeroPoints::int8)
      return Int8::value(load_le<std::uint8_t>(&zeros_[row_scales_ + block_]));
    const std::uint64_t words = word_row_of(form_, at_row_) - word_row_of(form_, first_row_);
    const auto word =
        load_le<std::uint32_t>(&zeros_[words * word_row_bytes(form_) + block_ * kWordBytes]);
    const auto place = static_cast<std::uint32_t>(row_ % rows_per_word(form_.zeros));
    if (form_.zeros == ZeroPoints::packed4) return Int4::value(word >> (4 * place) & 15U);
    return Uint8::value(word >> (8 * place) & 255U);
  }

  // Takes whole blocks from here on, with at most `most` elements.
  void take_blocks(std::uint64_t most, ScaleBatch& out) noexcept {
    out.count = 0;
    while (out.count < out.scales.size() && left_ == form_.col_block && left_ <= most) {
      out.scales[out.count] = scale();
      out.zeros[out.count] = zero();
      ++out.count;
      most -= take(most);
    }
  }

  // Returns the length of the run that begins here, at most `most`, and moves behind it.
  std::size_t take(std::uint64_t most) noexcept {
    const std::uint64_t count = std::min(most, left_);
    left_ -= count;
    if (left_ == 0) next_block();
    return static_cast<std::size_t>(count);
  }

 private:
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

// Returns whether a level has a loop for many blocks.
template <Simd kLevel, typename To, bool kHalves>
constexpr bool has_even_runs() noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512) return true;
  if constexpr (kLevel == Simd::avx2) return !kHalves && !std::is_same_v<To, F16>;
#endif
  return false;
}

// Returns false if a number isn't finite.
template <Simd kLevel, typename Code, typename To, bool kHalves>
bool decode_even(const EvenRuns& runs, const Value& value) noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512) return decode_even_avx512<Code, To, kHalves>(runs, value);
  if constexpr (kLevel == Simd::avx2) return decode_even_avx2<Code, To>(runs, value);
#endif
  return false;
}

// Elements that share a scale.
struct Run {
  float scale = 0;
  float zero = 0;
  std::uint64_t begin = 0;
  std::size_t count = 0;
};

// The loops for one code and one target dtype. With `kHalves`, values are rounded to f16 first.
template <typename Code, typename To, bool kHalves>
class Decoder {
 public:
  using Bits = typename To::Bits;

  Decoder(const Value& value, const std::byte* codes, std::byte* dst) noexcept
      : rule_(value), value_(value), codes_(codes), dst_(dst) {}

  // Decodes the runs of whole blocks at once. Returns false if the level has no such loop, or a
  // number isn't finite.
  template <Simd kLevel>
  bool decode_blocks(const ScaleBatch& batch, std::size_t length, std::uint64_t begin,
                     std::uint32_t bits) const {
    if constexpr (kIsFloatCode<Code>) {
      const auto is_zero = [](float zero) { return zero == 0; };
      if (!std::all_of(batch.zeros.begin(), batch.zeros.begin() + batch.count, is_zero))
        return false;
    }
    const EvenRuns runs{codes_ + begin * bits / 8, dst_ + begin * sizeof(Bits), length, batch.count,
                        batch.scales.data(),       batch.zeros.data()};
    return decode_even<kLevel, Code, To, kHalves>(runs, rule_);
  }

  // Decodes codes of one byte.
  std::uint64_t decode_bytes(const Run& run) const {
    std::uint64_t overflows = 0;
    for (std::size_t done = 0; done < run.count; done += kFloatBlock) {
      const std::size_t count = std::min(kFloatBlock, run.count - done);
      const std::byte* from = codes_ + run.begin + done;
      std::byte* to = dst_ + (run.begin + done) * sizeof(Bits);
      overflows +=
          count < kShortRun ? decode_few(run, count, from, to) : decode_block(run, count, from, to);
    }
    return overflows;
  }

  // Decodes codes of four bits. Computes the 16 values of a scale once.
  template <Simd kLevel>
  std::uint64_t decode_nibbles(const Run& run) const {
    CodeTable<Bits> table;
    for (std::uint32_t code = 0; code < table.size(); ++code) {
      table[code] = narrow(source(code, run));
    }
    std::uint64_t at = run.begin;
    const std::uint64_t end = run.begin + run.count;
    if (at % 2 != 0) put(table, at++);
    const auto bytes = static_cast<std::size_t>((end - at) / 2);
    expand_codes<kLevel>(table, codes_ + at / 2, bytes, dst_ + at * sizeof(Bits));
    if ((end - at) % 2 != 0) put(table, end - 1);
    std::uint32_t infinite = 0;
    for (const Bits bits : table) {
      infinite |= (bits & To::kMagnitude) == To::kInfinity ? 1U : 0U;
    }
    return infinite == 0 ? 0 : count_nibbles(run, table);
  }

 private:
  // A zero point of 0 doesn't change bits, since -0 - 0 is -0.
  float source(std::uint32_t code, const Run& run) const noexcept {
    const float out = (Code::value(code) - run.zero) * run.scale;
    if constexpr (kHalves) return F16::widen(F16::narrow(out));
    return out;
  }

  Bits narrow(float x) const noexcept { return To::narrow(value_(x)); }

  std::uint64_t decode_block(const Run& run, std::size_t count, const std::byte* codes,
                             std::byte* dst) const {
    std::array<std::uint8_t, kFloatBlock> in{};
    BitsBlock<To> out;
    if (count == kFloatBlock) {
      std::memcpy(in.data(), codes, kFloatBlock);
    } else {
      std::memcpy(in.data(), codes, count);
    }
    for (std::size_t i = 0; i < kFloatBlock; ++i) out[i] = narrow(source(in[i], run));
    if (count == kFloatBlock) {
      std::memcpy(dst, out.data(), sizeof out);
    } else {
      std::memcpy(dst, out.data(), count * sizeof(Bits));
    }
    if (!has_infinity<To>(out)) return 0;
    return count_overflows<To>(out, count, [&](std::size_t i) { return source(in[i], run); });
  }

  std::uint64_t decode_few(const Run& run, std::size_t count, const std::byte* codes,
                           std::byte* dst) const {
    BitsBlock<To> out;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = narrow(source(std::to_integer<std::uint32_t>(codes[i]), run));
    }
    std::memcpy(dst, out.data(), count * sizeof(Bits));
    return count_overflows<To>(out, count, [&](std::size_t i) {
      return source(std::to_integer<std::uint32_t>(codes[i]), run);
    });
  }

  std::uint32_t nibble(std::uint64_t at) const noexcept {
    return std::to_integer<std::uint32_t>(codes_[at / 2]) >> (at % 2 * 4) & 15U;
  }

  void put(const CodeTable<Bits>& table, std::uint64_t at) const noexcept {
    std::memcpy(dst_ + at * sizeof(Bits), &table[nibble(at)], sizeof(Bits));
  }

  std::uint64_t count_nibbles(const Run& run, const CodeTable<Bits>& table) const noexcept {
    std::uint64_t overflows = 0;
    for (std::uint64_t at = run.begin; at < run.begin + run.count; ++at) {
      const std::uint32_t code = nibble(at);
      const bool infinite = (table[code] & To::kMagnitude) == To::kInfinity;
      if (infinite && is_finite_bits(source(code, run))) ++overflows;
    }
    return overflows;
  }

  const Value& rule_;
  FullValue value_;
  const std::byte* codes_;
  std::byte* dst_;
};

// The arguments of one call.
struct Job {
  const BlockScale& form;
  const Value& value;
  std::uint64_t begin;
  std::uint64_t count;
  std::span<const std::byte> codes;
  const Scales& scales;
  std::span<std::byte> dst;
};

template <Simd kLevel, bool kNibbles, bool kHalves, typename Code, typename To>
std::uint64_t decode_rounding(const Job& job) {
  const Decoder<Code, To, kHalves> decoder(job.value, job.codes.data(), job.dst.data());
  ScaleRuns runs(job.form, job.begin, job.count, job.scales);
  const auto decode = [&](const Run& run) {
    if constexpr (kNibbles) return decoder.template decode_nibbles<kLevel>(run);
    return decoder.decode_bytes(run);
  };
  const auto length = static_cast<std::size_t>(job.form.col_block);
  const bool even = has_even_runs<kLevel, To, kHalves>() && length % kEvenStep == 0;
  ScaleBatch batch;
  std::uint64_t overflows = 0;
  for (std::uint64_t done = 0; done < job.count;) {
    if (even) runs.take_blocks(job.count - done, batch);
    if (batch.count == 0) {
      Run run{runs.scale(), runs.zero(), done, 0};
      run.count = runs.take(job.count - done);
      overflows += decode(run);
      done += run.count;
      continue;
    }
    if (!decoder.template decode_blocks<kLevel>(batch, length, done, kNibbles ? 4 : 8)) {
      for (std::size_t i = 0; i < batch.count; ++i)
        overflows += decode({batch.scales[i], batch.zeros[i], done + i * length, length});
    }
    done += batch.count * length;
  }
  return overflows;
}

template <Simd kLevel, bool kNibbles, typename Code, typename To>
std::uint64_t decode_all(const Job& job) {
  if constexpr (std::is_same_v<To, Bf16>) {
    if (job.form.rounds_to_half) return decode_rounding<kLevel, kNibbles, true, Code, To>(job);
  }
  return decode_rounding<kLevel, kNibbles, false, Code, To>(job);
}

template <Simd kLevel, typename To>
std::uint64_t decode_code(const Job& job) {
  switch (job.form.code) {
    case Code::f8_e4m3:
      return decode_all<kLevel, false, F8E4M3, To>(job);
    case Code::f8_e5m2:
      return decode_all<kLevel, false, F8E5M2, To>(job);
    case Code::f4_e2m1:
      return decode_all<kLevel, true, F4E2M1, To>(job);
    case Code::int4:
      return decode_all<kLevel, true, Int4, To>(job);
    case Code::int8:
      return decode_all<kLevel, false, Int8, To>(job);
    case Code::uint8:
      return decode_all<kLevel, false, Uint8, To>(job);
  }
  return 0;
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
    case Code::int8:
      return "int8";
    case Code::uint8:
      return "uint8";
  }
  return "";
}

std::uint32_t code_bits(Code code) noexcept {
  return code == Code::f4_e2m1 || code == Code::int4 ? 4 : 8;
}

DType codes_dtype(Code code, DType stored) noexcept {
  if (code_bits(code) == 4) return DType::f4;
  return size_bits(stored) == 8 ? stored : DType::u8;
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
  if (begin / form.cols == last / form.cols) {  // in one row
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

ByteRange zero_range(const BlockScale& form, std::uint64_t begin, std::uint64_t count) noexcept {
  if (form.zeros == ZeroPoints::none || count == 0) return {};
  if (form.zeros == ZeroPoints::int8) {
    const ScaleRange range = scale_range(form, begin, count);
    return {range.first, range.first + range.count};
  }
  const std::uint64_t row_bytes = word_row_bytes(form);
  return {word_row_of(form, begin / form.cols) * row_bytes,
          (word_row_of(form, (begin + count - 1) / form.cols) + 1) * row_bytes};
}

std::uint64_t most_zero_bytes(const BlockScale& form, std::uint64_t count) noexcept {
  if (form.zeros == ZeroPoints::none) return 0;
  const std::uint64_t scales = most_scales(form, count);
  return are_packed(form.zeros) ? scales * kWordBytes : scales;
}

std::uint64_t zero_bytes_per_matrix(const BlockScale& form) noexcept {
  if (form.zeros == ZeroPoints::none) return 0;
  if (form.zeros == ZeroPoints::int8) return form.scales_per_matrix();
  return ceil_div(form.rows, rows_per_word(form.zeros)) * word_row_bytes(form);
}

bool is_scale_dtype(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 ||
         dtype == DType::f8_e4m3 || dtype == DType::f8_e8m0 || dtype == DType::u8;
}

void apply_decode(const BlockScale& form, const Value& value, DType to, std::uint64_t begin,
                  std::uint64_t count, std::span<const std::byte> codes, const Scales& scales,
                  std::span<std::byte> dst, std::uint64_t& overflows, Simd simd) {
  const std::uint32_t bits = code_bits(form.code);
  HFSHARD_CHECK(begin * bits % 8 == 0 && codes.size() == ceil_div(count * bits, 8));
  HFSHARD_CHECK(dst.size() == packed_bytes(to, count));
  HFSHARD_CHECK(can_apply_value(value, DType::f32, to));
  if (count == 0) return;
  const Job job{form, value, begin, count, codes, scales, dst};
  run_as(simd, [&](auto level) {
    if (to == DType::bf16) {
      overflows += decode_code<level(), Bf16>(job);
    } else if (to == DType::f16) {
      overflows += decode_code<level(), F16>(job);
    } else {
      overflows += decode_code<level(), F32>(job);
    }
  });
}

}  // namespace hfshard
