// Inner loops of src/ops, in target bytes per second of one thread. The ceiling is Memcpy over the
// same bytes. Sources and targets rotate through kPoolBytes, so that nothing stays in the caches
// between calls. Payloads of safetensors files are unaligned, so sources begin kSkew bytes after an
// aligned address.

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/coding.h"
#include "base/floats.h"
#include "ops/decode.h"
#include "ops/move.h"
#include "ops/value.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{192} << 20;
constexpr std::size_t kSkew = 24;

/// Returns random, seeded bytes, made once.
std::vector<std::byte>& source_pool() {
  static std::vector<std::byte> pool = [] {
    std::vector<std::byte> out(kPoolBytes + kSkew);
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
      const std::uint64_t bits = random();
      std::memcpy(&out[i], &bits, 8);
    }
    return out;
  }();
  return pool;
}

std::vector<std::byte>& target_pool() {
  static std::vector<std::byte> pool(kPoolBytes);
  return pool;
}

/// One call reads `src_bytes` of source and fills `dst_bytes`. One iteration moves all `maps`.
struct Work {
  std::vector<IndexMap> maps;
  std::size_t element_bytes = 0;
  std::size_t src_bytes = 0;
  std::size_t dst_bytes = 0;
};

void run(benchmark::State& state, const Work& work) {
  const std::span<const std::byte> sources = std::span(source_pool()).subspan(kSkew);
  const std::span<std::byte> targets = target_pool();
  std::vector<std::byte> expected(work.dst_bytes);
  std::uint64_t moved = 0;
  for (const IndexMap& map : work.maps) {
    reference::move_elements(map, work.element_bytes, sources.data(), expected.data());
    moved += map.count() * work.element_bytes;
    move_elements(map, work.element_bytes, sources.first(work.src_bytes),
                  targets.first(work.dst_bytes));
  }
  if (moved == work.dst_bytes &&
      std::memcmp(expected.data(), targets.data(), work.dst_bytes) != 0) {
    return state.SkipWithError("wrong result");
  }
  const std::size_t places = kPoolBytes / std::max(work.src_bytes, work.dst_bytes);
  std::size_t place = 0;
  for (auto _ : state) {
    for (const IndexMap& map : work.maps) {
      move_elements(map, work.element_bytes,
                    sources.subspan(place * work.src_bytes, work.src_bytes),
                    targets.subspan(place * work.dst_bytes, work.dst_bytes));
    }
    place = (place + 1) % places;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(moved));
}

std::int64_t as_step(std::uint64_t step) { return static_cast<std::int64_t>(step); }

void Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  run(state, {{IndexMap{0, 0, {{bytes, 1, 1}}}}, 1, bytes, bytes});
}

/// `[n m] -> [m n]` in one call. Arguments: element bytes, n, m.
void Transpose(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto rows = static_cast<std::uint64_t>(state.range(1));
  const auto columns = static_cast<std::uint64_t>(state.range(2));
  const IndexMap map{0, 0, {{columns, 1, as_step(rows)}, {rows, as_step(columns), 1}}};
  run(state, {{map}, bytes, rows * columns * bytes, rows * columns * bytes});
}

/// Moves bands of source rows into 16 contiguous chunks `[m/16 n]`, like a run. Arguments: element
/// bytes, n, m, rows in a band.
void TransposeBands(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto rows = static_cast<std::uint64_t>(state.range(1));
  const auto columns = static_cast<std::uint64_t>(state.range(2));
  const auto band = static_cast<std::uint64_t>(state.range(3));
  const std::uint64_t width = columns / 16;
  Work work{{}, bytes, rows * columns * bytes, rows * columns * bytes};
  for (std::uint64_t row = 0; row < rows; row += band) {
    for (std::uint64_t chunk = 0; chunk < 16; ++chunk) {
      work.maps.push_back({row * columns + chunk * width,
                           chunk * width * rows + row,
                           {{width, 1, as_step(rows)}, {band, as_step(columns), 1}}});
    }
  }
  run(state, work);
}

/// `[(H t c) D] -> [D H (c t)]`: H = 16, t = 2, c = 64, D = 2048. Argument: element bytes.
void RotaryInterleave(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const IndexMap map{
      0, 0, {{2048, 1, 2048}, {16, 128 * 2048, 128}, {64, 2048, 2}, {2, 64 * 2048, 1}}};
  run(state, {{map}, bytes, 2048 * 2048 * bytes, 2048 * 2048 * bytes});
}

/// `[E D (F 0/2)] -> [E D F]`: E = 4, D = 720, F = 1440. Argument: element bytes.
void InterleavedHalves(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const IndexMap map{0, 0, {{4 * 720 * 1440, 2, 1}}};
  run(state, {{map}, bytes, 4 * 720 * 2880 * bytes, 4 * 720 * 1440 * bytes});
}

/// `[D (F 0/2)] -> [F D]`, strided and transposed: D = 1440, F = 1440. Argument: element bytes.
void StridedTranspose(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const IndexMap map{0, 0, {{1440, 2, 1440}, {1440, 2880, 1}}};
  run(state, {{map}, bytes, 1440 * 2880 * bytes, 1440 * 1440 * bytes});
}

/// `[a b X] -> [b a X]` with runs of X bytes. Argument: run bytes.
void Runs(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t rows = 64;
  const std::uint64_t columns = (std::uint64_t{4} << 20) / rows / bytes;
  const IndexMap map{0,
                     0,
                     {{columns, as_step(bytes), as_step(rows * bytes)},
                      {rows, as_step(columns * bytes), as_step(bytes)},
                      {bytes, 1, 1}}};
  run(state, {{map}, 1, rows * columns * bytes, rows * columns * bytes});
}

/// Set-up cost: a map of 16 elements.
void SmallMap(benchmark::State& state) {
  run(state, {{IndexMap{0, 0, {{4, 1, 4}, {4, 4, 1}}}}, 2, 32, 32});
}

float widened(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) return load_le<float>(at);
  const auto bits = load_le<std::uint16_t>(at);
  return dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/// Returns whether the first elements equal those that base/floats computes one by one.
bool right_values(DType from, DType to, const Value& value, std::span<const std::byte> src,
                  std::span<const std::byte> dst) {
  const std::size_t from_bytes = size_bits(from) / 8;
  const std::size_t to_bytes = size_bits(to) / 8;
  for (std::size_t i = 0; i < 10007; ++i) {
    float x = widened(from, &src[i * from_bytes]);
    if (value.mul) x = x * *value.mul;
    if (value.add) x = x + *value.add;
    std::array<std::byte, 4> expected{};
    if (to == DType::f32) store_le(expected.data(), x);
    if (to == DType::f16) store_le(expected.data(), f32_to_f16(x));
    if (to == DType::bf16) store_le(expected.data(), f32_to_bf16(x));
    if (std::memcmp(expected.data(), &dst[i * to_bytes], to_bytes) != 0) return false;
  }
  return true;
}

void ApplyValue(benchmark::State& state, DType from, DType to, const Value& value) {
  constexpr std::uint64_t kCount = std::uint64_t{1} << 20;
  const std::size_t src_bytes = packed_bytes(from, kCount);
  const std::size_t dst_bytes = packed_bytes(to, kCount);
  const std::span<const std::byte> sources = std::span(source_pool()).subspan(kSkew);
  const std::span<std::byte> targets = target_pool();
  apply_value(value, from, to, kCount, sources.first(src_bytes), targets.first(dst_bytes));
  if (!right_values(from, to, value, sources, targets)) return state.SkipWithError("wrong result");
  const std::size_t places = kPoolBytes / std::max(src_bytes, dst_bytes);
  std::size_t place = 0;
  for (auto _ : state) {
    apply_value(value, from, to, kCount, sources.subspan(place * src_bytes, src_bytes),
                targets.subspan(place * dst_bytes, dst_bytes));
    place = (place + 1) % places;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(dst_bytes));
}

/// FP8 as in DeepSeek-V3, MXFP4 as in gpt-oss, NVFP4 as in ModelOpt, int4 as in compressed-tensors.
const BlockScale kFp8{Code::f8_e4m3, DType::f32, 2048, 2048, 128, 128};
const BlockScale kMxfp4{Code::f4_e2m1, DType::u8, 2048, 2048, 1, 32};
const BlockScale kNvfp4{Code::f4_e2m1,    DType::f8_e4m3,    2048, 2048, 1, 16,
                        ZeroPoints::none, Factor::multiplies};
const BlockScale kInt4{Code::int4, DType::bf16, 2048, 2048, 1, 128};

std::vector<std::byte> scales_of(const BlockScale& form) {
  std::vector<std::byte> out(form.scales_per_matrix() * size_bits(form.scale_dtype) / 8);
  std::mt19937 random(11);
  for (std::size_t i = 0; i < out.size(); i += size_bits(form.scale_dtype) / 8) {
    if (form.scale_dtype == DType::f32) {
      store_le(&out[i], static_cast<float>(random() % 1000 + 1) * 1e-4F);
    } else if (form.scale_dtype == DType::bf16) {
      store_le(&out[i], static_cast<std::uint16_t>(0x3c00 + random() % 256));
    } else if (form.scale_dtype == DType::f8_e4m3) {
      out[i] = static_cast<std::byte>(40 + random() % 40);
    } else {
      out[i] = static_cast<std::byte>(110 + random() % 20);
    }
  }
  return out;
}

/// Random codes, but no NaN of FP8, which weights don't have.
const std::vector<std::byte>& code_pool() {
  static const std::vector<std::byte> pool = [] {
    std::vector<std::byte> out = source_pool();
    for (std::byte& code : out) {
      if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};
    }
    return out;
  }();
  return pool;
}

/// How a decoded matrix becomes the target.
enum class Way : std::uint8_t {
  in_order,         ///< `[rows cols]`
  transposed,       ///< decoded rows stay in the cache, and move from there to `[cols rows]`
  codes_first,      ///< codes are transposed, then decoded to `[cols rows]`
  codes_and_digest  ///< the same, and rows are decoded into the cache for their digest
};

constexpr std::uint64_t kBand = 256;

/// Decodes codes to bf16 like a run, in bands of 1 MiB of values.
void decode_rows(const BlockScale& form, Way way, Simd simd, std::span<const std::byte> codes,
                 std::span<const std::byte> scales, std::span<std::byte> values,
                 std::span<std::byte> dst) {
  std::uint64_t overflows = 0;
  for (std::uint64_t row = 0; row < form.rows; row += kBand) {
    const std::uint64_t begin = row * form.cols;
    const std::uint64_t count = kBand * form.cols;
    const std::uint64_t bits = code_bits(form.code);
    const ScaleRange range = scale_range(form, begin, count);
    const std::size_t size = size_bits(form.scale_dtype) / 8;
    const auto band =
        way == Way::in_order ? dst.subspan(begin * 2, count * 2) : values.first(count * 2);
    apply_decode(form, {}, DType::bf16, begin, count,
                 codes.subspan(begin * bits / 8, count * bits / 8),
                 scales.subspan(range.first * size, range.count * size), band, overflows, simd);
    if (way != Way::transposed) continue;
    move_elements({0, row, {{form.cols, 1, as_step(form.rows)}, {kBand, as_step(form.cols), 1}}}, 2,
                  band, dst, simd);
  }
}

/// Transposes codes of one byte in bands of columns, and decodes them from the cache into whole
/// rows of `[cols rows]`.
void decode_columns(const BlockScale& form, Simd simd, std::span<const std::byte> codes,
                    std::span<const std::byte> scales, std::span<std::byte> values,
                    std::span<std::byte> dst) {
  BlockScale across = form;
  std::swap(across.rows, across.cols);
  std::swap(across.row_block, across.col_block);
  const std::size_t size = size_bits(form.scale_dtype) / 8;
  const std::uint64_t count = kBand * form.rows;
  const auto band = values.first(count);
  std::vector<std::byte> turned(scales.size());
  move_elements({0,
                 0,
                 {{form.scales_per_row(), 1, as_step(across.scales_per_row())},
                  {across.scales_per_row(), as_step(form.scales_per_row()), 1}}},
                size, scales, turned, simd);
  std::uint64_t overflows = 0;
  for (std::uint64_t column = 0; column < form.cols; column += kBand) {
    move_elements({column, 0, {{kBand, 1, as_step(form.rows)}, {form.rows, as_step(form.cols), 1}}},
                  1, codes, band, simd);
    const std::uint64_t begin = column * form.rows;
    const ScaleRange range = scale_range(across, begin, count);
    apply_decode(across, {}, DType::bf16, begin, count, band,
                 std::span(turned).subspan(range.first * size, range.count * size),
                 dst.subspan(begin * 2, count * 2), overflows, simd);
  }
}

void decode_matrix(const BlockScale& form, Way way, Simd simd, std::span<const std::byte> codes,
                   std::span<const std::byte> scales, std::span<std::byte> values,
                   std::span<std::byte> dst) {
  if (way != Way::codes_first) decode_rows(form, way, simd, codes, scales, values, dst);
  if (way == Way::codes_first || way == Way::codes_and_digest)
    decode_columns(form, simd, codes, scales, values, dst);
}

/// Returns whether the first row equals the result of decoding each code.
bool right_codes(const BlockScale& form, Way way, std::span<const std::byte> codes,
                 std::span<const std::byte> scales, std::span<const std::byte> dst) {
  const std::uint64_t step = way == Way::in_order ? 1 : form.rows;
  const std::size_t size = size_bits(form.scale_dtype) / 8;
  for (std::uint64_t i = 0; i < form.cols; i += 2) {
    std::array<std::byte, 4> expected{};
    std::uint64_t overflows = 0;
    apply_decode(form, {}, DType::bf16, i, 2,
                 codes.subspan(i * code_bits(form.code) / 8, 2 * code_bits(form.code) / 8),
                 scales.subspan(i / form.col_block * size, size), expected, overflows,
                 Simd::portable);
    if (std::memcmp(expected.data(), &dst[2 * i * step], 2) != 0 ||
        std::memcmp(&expected[2], &dst[2 * (i + 1) * step], 2) != 0) {
      return false;
    }
  }
  return true;
}

void Decode(benchmark::State& state, const BlockScale& form, Way way, Simd simd = best_simd()) {
  if (simd > best_simd()) return state.SkipWithError("the processor lacks the instructions");
  const std::size_t src_bytes = form.rows * form.cols * code_bits(form.code) / 8;
  const std::size_t dst_bytes = form.rows * form.cols * 2;
  const std::span<const std::byte> sources = std::span(code_pool()).subspan(kSkew);
  const std::span<std::byte> targets = target_pool();
  const std::vector<std::byte> scales = scales_of(form);
  std::vector<std::byte> values(dst_bytes);
  decode_matrix(form, way, simd, sources.first(src_bytes), scales, values,
                targets.first(dst_bytes));
  if (!right_codes(form, way, sources, scales, targets)) {
    return state.SkipWithError("wrong result");
  }
  const std::size_t places = kPoolBytes / dst_bytes;
  std::size_t place = 0;
  for (auto _ : state) {
    decode_matrix(form, way, simd, sources.subspan(place * src_bytes, src_bytes), scales, values,
                  targets.subspan(place * dst_bytes, dst_bytes));
    place = (place + 1) % places;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(dst_bytes));
}

BENCHMARK(Memcpy)->Arg(64 << 10)->Arg(4 << 20);
BENCHMARK(Transpose)
    ->Args({1, 2048, 2048})
    ->Args({2, 3072, 1024})
    ->Args({2, 2048, 2048})
    ->Args({2, 1999, 2003})
    ->Args({4, 2048, 2048});
BENCHMARK(TransposeBands)
    ->Args({1, 3072, 1024, 512})
    ->Args({2, 3072, 1024, 512})
    ->Args({2, 3072, 1024, 64})
    ->Args({2, 4096, 4096, 1024})
    ->Args({4, 3072, 1024, 512});
BENCHMARK(RotaryInterleave)->Arg(2)->Arg(4);
BENCHMARK(InterleavedHalves)->Arg(1)->Arg(2)->Arg(4);
BENCHMARK(StridedTranspose)->Arg(2)->Arg(4);
BENCHMARK(Runs)->Arg(4)->Arg(8)->Arg(12)->Arg(24)->Arg(64)->Arg(256)->Arg(4096);
BENCHMARK(SmallMap);
BENCHMARK_CAPTURE(ApplyValue, mul_bf16_bf16, DType::bf16, DType::bf16, Value{0.088F, {}});
BENCHMARK_CAPTURE(ApplyValue, add_bf16_f32, DType::bf16, DType::f32, Value{{}, 1.0F});
BENCHMARK_CAPTURE(ApplyValue, cast_f32_bf16, DType::f32, DType::bf16, Value{});
BENCHMARK_CAPTURE(ApplyValue, cast_f16_bf16, DType::f16, DType::bf16, Value{});
BENCHMARK_CAPTURE(ApplyValue, cast_f32_f16, DType::f32, DType::f16, Value{});
BENCHMARK_CAPTURE(Decode, fp8, kFp8, Way::in_order);
BENCHMARK_CAPTURE(Decode, fp8_transposed, kFp8, Way::transposed);
BENCHMARK_CAPTURE(Decode, fp8_codes_first, kFp8, Way::codes_first);
BENCHMARK_CAPTURE(Decode, fp8_codes_and_digest, kFp8, Way::codes_and_digest);
BENCHMARK_CAPTURE(Decode, mxfp4, kMxfp4, Way::in_order);
BENCHMARK_CAPTURE(Decode, mxfp4_transposed, kMxfp4, Way::transposed);
BENCHMARK_CAPTURE(Decode, nvfp4, kNvfp4, Way::in_order);
BENCHMARK_CAPTURE(Decode, nvfp4_transposed, kNvfp4, Way::transposed);
BENCHMARK_CAPTURE(Decode, int4, kInt4, Way::in_order);
BENCHMARK_CAPTURE(Decode, int4_transposed, kInt4, Way::transposed);
BENCHMARK_CAPTURE(Decode, fp8_avx2, kFp8, Way::in_order, Simd::avx2);
BENCHMARK_CAPTURE(Decode, mxfp4_avx2, kMxfp4, Way::in_order, Simd::avx2);
BENCHMARK_CAPTURE(Decode, nvfp4_avx2, kNvfp4, Way::in_order, Simd::avx2);
BENCHMARK_CAPTURE(Decode, int4_avx2, kInt4, Way::in_order, Simd::avx2);

}  // namespace
}  // namespace hfshard
