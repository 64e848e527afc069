#include "ops/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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
#include "ops/scale_runs.h"
#include "ops/simd.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Shorter runs aren't worth a whole block.
constexpr std::size_t kShortRun = 8;

// Returns the runs of a length that a level's loop for many blocks takes at a time. 0 if it has no
// loop for them.
template <Simd kLevel, typename To, bool kHalves>
constexpr std::size_t runs_together([[maybe_unused]] std::size_t length) noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512 ||
                (kLevel == Simd::avx2 && !kHalves && !std::is_same_v<To, F16>)) {
    return runs_per_step<kLevel>(length);
  }
#endif
  return 0;
}

// Returns false if a code isn't finite.
template <Simd kLevel, typename Code, typename To, bool kHalves>
bool decode_even([[maybe_unused]] const EvenRuns& runs,
                 [[maybe_unused]] const Value& value) noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512) return decode_even_avx512<Code, To, kHalves>(runs, value);
  if constexpr (kLevel == Simd::avx2) return decode_even_avx2<Code, To>(runs, value);
#endif
  return false;
}

// Returns the largest magnitude.
float largest(const ScaleBatch::Numbers& numbers, std::size_t count) noexcept {
  std::uint32_t most = 0;  // a NaN is larger than infinity
  for (std::size_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(numbers[i]) & F32::kMagnitude);
  return std::bit_cast<float>(most);
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

  // Decodes the first `count` runs of `length` codes at once. Returns false if the level has no
  // such loop, the codes begin inside of a byte, or a number may not be finite.
  template <Simd kLevel>
  bool decode_blocks(const ScaleBatch& batch, std::size_t count, std::size_t length,
                     std::uint64_t begin) const {
    if (kIsNibble<Code> && begin % 2 != 0) return false;
    if (!stays_finite(batch)) return false;
    const EvenRuns runs{codes_ + code_bytes<Code>(begin),
                        dst_ + begin * sizeof(Bits),
                        length,
                        count,
                        batch.scales.data(),
                        batch.zeros.data()};
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

  // Returns whether each finite code becomes a finite number. Rounding is monotonic, so what the
  // largest magnitudes give is a bound.
  bool stays_finite(const ScaleBatch& batch) const noexcept {
    const float zero = largest(batch.zeros, batch.count);
    if (kIsFloatCode<Code> && zero != 0) return false;  // the loops leave it out
    float most = (Code::kLargest + zero) * largest(batch.scales, batch.count);
    if constexpr (kHalves) most = F16::widen(F16::narrow(most));
    const float product = most * std::abs(value_.mul);
    return std::bit_cast<std::uint32_t>(product + std::abs(value_.add)) < least_infinite<To>();
  }

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
  const std::size_t together = runs_together<kLevel, To, kHalves>(length);
  ScaleBatch batch;
  std::uint64_t overflows = 0;
  for (std::uint64_t done = 0; done < job.count;) {
    if (together != 0) runs.take_blocks(job.count - done, batch);
    if (batch.count == 0) {
      Run run{runs.scale(), runs.zero(), done, 0};
      run.count = runs.take(job.count - done);
      overflows += decode(run);
      done += run.count;
      continue;
    }
    const std::size_t even = batch.count - batch.count % std::max<std::size_t>(together, 1);
    const bool fast = decoder.template decode_blocks<kLevel>(batch, even, length, done);
    for (std::size_t i = fast ? even : 0; i < batch.count; ++i)
      overflows += decode({batch.scales[i], batch.zeros[i], done + i * length, length});
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
