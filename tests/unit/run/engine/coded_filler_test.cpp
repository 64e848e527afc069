// Fills leaves of quantized and converted sources unit by unit, with exactly the plan's memory.
// Compares them with a slow element by element reference. Covers scales whose last row and column
// are partly used, bands that begin within a block, several transfers in one leaf, and overflows.

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/floats.h"
#include "format/formats.h"
#include "run/engine/unit_filler.h"
#include "support/safetensors_builder.h"
#include "unit/ops/reference.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;

constexpr std::uint64_t kCodedSeed = 99171;
constexpr int kCodedRounds = 120;

float widen(DType dtype, const std::string& text, std::size_t at) {
  const std::byte* bytes = &std::as_bytes(std::span(text))[at];
  if (dtype == DType::f32) return load_le<float>(bytes);
  if (dtype == DType::bf16) return bf16_to_f32(load_le<std::uint16_t>(bytes));
  if (dtype == DType::f16) return f16_to_f32(load_le<std::uint16_t>(bytes));
  return std::ldexp(1.0F, std::to_integer<int>(*bytes) - 127);  // u8, f8_e8m0
}

std::string narrow(DType dtype, float value) {
  std::string out(size_bits(dtype) / 8, '\0');
  std::byte* bytes = std::as_writable_bytes(std::span(out)).data();
  if (dtype == DType::f32) store_le(bytes, value);
  if (dtype == DType::bf16) store_le(bytes, f32_to_bf16(value));
  if (dtype == DType::f16) store_le(bytes, f32_to_f16(value));
  return out;
}

// Returns values of codes, written again from the specifications.
float code_value(Code code, std::uint32_t bits) {
  constexpr float kFourBits[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  if (code == Code::int4) return static_cast<float>(bits) - 8;
  if (code == Code::uint8) return static_cast<float>(bits) - 128;
  if (code == Code::int8) return static_cast<float>(bits) - (bits < 128 ? 0.0F : 256.0F);
  if (code == Code::f4_e2m1) return bits < 8 ? kFourBits[bits] : -kFourBits[bits - 8];
  const int mantissa_bits = code == Code::f8_e4m3 ? 3 : 2;
  const int bias = code == Code::f8_e4m3 ? 7 : 15;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((0x80U >> mantissa_bits) - 1));
  const auto mantissa = static_cast<float>(bits & ((1U << mantissa_bits) - 1));
  const float sign = bits < 0x80 ? 1.0F : -1.0F;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp(mantissa + std::ldexp(1.0F, mantissa_bits),
                                            exponent - bias - mantissa_bits));
}

// One transfer's sources as bytes, with their meaning.
struct Source {
  Transfer transfer;
  std::vector<std::string> stored;  // per source
  std::vector<std::string> scales;  // per source, if coded
  std::vector<std::string> zeros;   // per source, if it has zero points
  float factor = 1;

  std::uint64_t scale_number(std::uint64_t element) const {
    const BlockScale& form = transfer.decode->form;
    const std::uint64_t row = element / form.cols;
    return row / form.rows * form.scales_per_matrix() +
           row % form.rows / form.row_block * form.scales_per_row() +
           element % form.cols / form.col_block;
  }

  float scale_at(std::size_t source, std::uint64_t element) const {
    const BlockScale& form = transfer.decode->form;
    const float scale = widen(form.scale_dtype, scales[source],
                              scale_number(element) * size_bits(form.scale_dtype) / 8);
    if (form.factor == Factor::none) return scale;
    return form.factor == Factor::divides ? scale / factor : scale * factor;
  }

  float zero_at(std::size_t source, std::uint64_t element) const {
    const BlockScale& form = transfer.decode->form;
    if (form.zeros == ZeroPoints::none) return 0;
    if (form.zeros == ZeroPoints::int8)
      return code_value(Code::int8,
                        static_cast<std::uint8_t>(zeros[source][scale_number(element)]));
    const std::uint64_t row = element / form.cols;
    const std::uint64_t per_word = form.zeros == ZeroPoints::packed4 ? 8 : 4;
    const std::uint64_t word_row =
        row / form.rows * ceil_div(form.rows, per_word) + row % form.rows / per_word;
    const std::uint64_t word =
        word_row * form.scales_per_row() + element % form.cols / form.col_block;
    const std::uint64_t bits = 32 / per_word;
    const std::uint64_t place = row % form.rows % per_word * bits;
    const auto byte = static_cast<std::uint8_t>(zeros[source][word * 4 + place / 8]);
    return per_word == 8 ? code_value(Code::int4, byte >> place % 8 & 15U)
                         : code_value(Code::uint8, byte);
  }

  float value_at(std::size_t source, std::uint64_t element) const {
    if (!transfer.decode) {
      const std::size_t size = size_bits(transfer.source_dtype) / 8;
      return widen(transfer.source_dtype, stored[source], element * size);
    }
    const Code code = transfer.decode->form.code;
    const std::uint64_t at = element * code_bits(code) / 8;
    auto bits = static_cast<std::uint8_t>(stored[source][at]);
    if (code_bits(code) == 4) bits = element % 2 == 0 ? bits & 15U : bits >> 4;
    return (code_value(code, bits) - zero_at(source, element)) * scale_at(source, element);
  }
};

// A leaf [layers, rows * 2, cols] with even rows from one transfer and odd rows from another, like
// gate and up in one leaf. Sources are used whole, or every second row of a larger one.
struct CodedModel {
  Random random;
  SafetensorsBuilder builder;
  CompiledModel model;
  std::vector<Source> sources;
  std::uint32_t tensors = 0;

  explicit CodedModel(std::uint64_t seed) : random(seed) {
    model.family = model.scheme = "test";
    model.rules = {"test#/0"};
    const std::uint64_t layers = pick(random, 1, 3);
    const std::uint64_t rows = pick(random, 1, 9);
    const std::uint64_t cols = 2 * pick(random, 1, 20);
    Leaf leaf;
    leaf.name = "leaf";
    leaf.shape = {layers, 2 * rows, cols};
    constexpr DType kLeaves[] = {DType::bf16, DType::f16, DType::f32};
    leaf.dtype = kLeaves[random() % 3];
    leaf.axes = {"", random() % 2 == 0 ? "split" : "", ""};
    leaf.stacked = {true, false, false};
    model.leaves.push_back(leaf);
    const bool coded_first = random() % 2 == 0;
    for (const bool second : {false, true}) {
      // A plain transfer needs little scratch, a coded one much.
      add_transfer(leaf, layers, rows, cols, second, second != coded_first || random() % 4 == 0);
    }
  }

  void add_transfer(const Leaf& leaf, std::uint64_t layers, std::uint64_t rows, std::uint64_t cols,
                    bool second, bool coded) {
    Source source;
    Transfer& transfer = source.transfer;
    const bool every_second_row = random() % 2 == 0;
    const std::uint64_t source_rows = every_second_row ? 2 * rows : rows;
    const auto row = static_cast<std::int64_t>(cols);
    transfer.source_shape = {source_rows, cols};
    transfer.loops = {{layers, 2 * static_cast<std::int64_t>(rows) * row}};
    transfer.map.src_base = every_second_row && random() % 2 == 0 ? cols : 0;
    transfer.map.dst_base = second ? cols : 0;
    transfer.map.digits = {{rows, every_second_row ? 2 * row : row, 2 * row}, {cols, 1, 1}};
    if (random() % 3 == 0) transfer.value.mul = 1.5F;
    if (coded) {
      choose_form(transfer, source_rows, cols);
    } else {
      constexpr DType kPlain[] = {DType::bf16, DType::f16, DType::f32};
      transfer.source_dtype = random() % 2 == 0 ? leaf.dtype : kPlain[random() % 3];
    }
    for (std::uint64_t layer = 0; layer < layers; ++layer) add_source(source);
    model.transfers.push_back(transfer);
    sources.push_back(std::move(source));
  }

  void choose_form(Transfer& transfer, std::uint64_t rows, std::uint64_t cols) {
    constexpr Code kCodes[] = {Code::f8_e4m3, Code::f8_e5m2, Code::f4_e2m1,
                               Code::int4,    Code::int8,    Code::uint8};
    constexpr DType kScales[] = {DType::f32, DType::bf16, DType::f16, DType::u8, DType::f8_e8m0};
    Decode decode;
    BlockScale& form = decode.form;
    form.code = kCodes[random() % 6];
    form.scale_dtype = kScales[random() % 5];
    const bool stack = rows % 4 == 0 && random() % 2 == 0;  // two stacked matrices
    form.rows = stack ? rows / 2 : rows;
    form.cols = cols;
    form.row_block = pick(random, 1, form.rows);
    form.col_block = pick(random, 1, cols);
    const bool is_int =
        form.code != Code::f8_e4m3 && form.code != Code::f8_e5m2 && form.code != Code::f4_e2m1;
    if (is_int && random() % 2 == 0) {
      form.zeros = ZeroPoints::int8;
    } else if (is_int && form.code != Code::int8 && random() % 2 == 0) {
      form.row_block = 1;
      form.zeros = form.code == Code::int4 ? ZeroPoints::packed4 : ZeroPoints::packed8;
    }
    constexpr Factor kFactors[] = {Factor::none, Factor::multiplies, Factor::divides};
    form.factor = kFactors[random() % 3];
    transfer.source_dtype = codes_dtype(form.code, form.code == Code::f8_e4m3   ? DType::f8_e4m3
                                                   : form.code == Code::f8_e5m2 ? DType::f8_e5m2
                                                                                : DType::u8);
    if (stack) transfer.source_shape = {2, form.rows, cols};
    transfer.decode = std::make_shared<const Decode>(decode);
  }

  void add_source(Source& source) {
    Transfer& transfer = source.transfer;
    const std::uint64_t numel = transfer.source_shape.numel();
    source.stored.push_back(transfer.decode ? random_codes(transfer.decode->form.code, numel)
                                            : random_values(transfer.source_dtype, numel));
    // Tensors have names in order of addition, so that catalog indices are known.
    const bool packed = transfer.source_dtype == DType::f4;
    transfer.sources.push_back(add_tensor(packed ? DType::u8 : transfer.source_dtype,
                                          packed ? Shape{numel / 2} : Shape{numel},
                                          source.stored.back()));
    if (!transfer.decode) return;
    Decode decode = *transfer.decode;
    const std::uint64_t count =
        numel / (decode.form.rows * decode.form.cols) * decode.form.scales_per_matrix();
    source.scales.push_back(random_scales(decode.form.scale_dtype, count));
    decode.scales.push_back(
        add_tensor(decode.form.scale_dtype, Shape{count}, source.scales.back()));
    if (decode.form.zeros != ZeroPoints::none) {
      const std::uint64_t bytes =
          numel / (decode.form.rows * decode.form.cols) * zero_bytes_per_matrix(decode.form);
      source.zeros.push_back(random_bytes(bytes));
      decode.zeros.push_back(add_tensor(DType::u8, Shape{bytes}, source.zeros.back()));
    }
    if (decode.form.factor != Factor::none) {
      source.factor = 3.3F;
      decode.factors.push_back(add_tensor(DType::f32, Shape{}, narrow(DType::f32, source.factor)));
    }
    transfer.decode = std::make_shared<const Decode>(decode);
  }

  std::string random_bytes(std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) out.push_back(static_cast<char>(random()));
    return out;
  }

  std::uint32_t add_tensor(DType dtype, const Shape& shape, const std::string& bytes) {
    char name[32];
    std::snprintf(name, sizeof name, "t%03u", tensors);
    builder.tensor(name, dtype, shape, bytes);
    return tensors++;
  }

  // No NaN and no infinity. f32 sources can exceed f16's range, f16 sources can't.
  std::string random_values(DType dtype, std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto small = static_cast<float>(random() % 2001) - 1000;
      const bool large = random() % 8 == 0 && dtype != DType::f16;
      out += narrow(dtype, large ? small * 0x1p115F : small / 16);
    }
    return out;
  }

  std::string random_codes(Code code, std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count * code_bits(code) / 8; ++i) {
      std::uint32_t bits = random() & 0xffU;
      if (code == Code::f8_e4m3 && (bits & 0x7fU) == 0x7fU) bits ^= 1U;
      if (code == Code::f8_e5m2 && (bits & 0x7fU) >= 0x7cU) bits ^= 0x40U;
      out.push_back(static_cast<char>(bits));
    }
    return out;
  }

  std::string random_scales(DType dtype, std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool large = random() % 4 == 0;
      if (size_bits(dtype) == 8) {
        out.push_back(static_cast<char>(large ? 127 + 16 : pick(random, 120, 130)));
      } else {
        out += narrow(dtype, large ? 6e4F : static_cast<float>(pick(random, 1, 100)) / 8);
      }
    }
    return out;
  }

  struct Wanted {
    std::map<std::uint64_t, std::string> elements;
    std::uint64_t overflows = 0;
  };
  Wanted wanted() const {
    Wanted out;
    const Leaf& leaf = model.leaves[0];
    for (const Source& source : sources) {
      const Transfer& transfer = source.transfer;
      for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
        for (const auto& [src, dst] : reference::pairs(transfer.map)) {
          const float before = source.value_at(s, src);
          const float value = transfer.value.mul ? before * *transfer.value.mul : before;
          const std::string bytes = narrow(leaf.dtype, value);
          const bool moved = !transfer.converts(leaf.dtype);
          out.overflows +=
              !moved && std::isfinite(before) && std::isinf(widen(leaf.dtype, bytes, 0));
          out.elements[dst + s * static_cast<std::uint64_t>(transfer.loops[0].dst_step)] = bytes;
        }
      }
    }
    return out;
  }
};

Plan random_plan(const Catalog& catalog, const CompiledModel& model, Random& random) {
  PlanOptions options;
  options.meshes = {random() % 2 == 0 ? "fsdp=2" : "fsdp=1"};
  options.rules_text = R"([["split", ["fsdp"]]])";
  options.chunk_bytes = std::uint64_t{8} << pick(random, 0, 8);
  Limits limits = small_limits();
  limits.floor_bytes = std::uint64_t{1} << pick(random, 3, 9);
  limits.run_bytes = random() % 2 == 0 ? 1 : 256;
  limits.segment_bytes = std::uint64_t{1} << pick(random, 2, 10);
  limits.alignment_bytes = 16;
  const Format& target = format_of("orbax");
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, options.encoding);
  };
  return build_plan(make_model(catalog, model), options, form, target.layout(), limits);
}

struct CodedFilled {
  std::vector<std::byte> space;
  std::uint64_t overflows = 0;
  std::vector<Digest128> sums;
};

// Uses exactly the plan's scratch.
CodedFilled fill_coded(const Plan& plan) {
  CodedFilled out;
  out.space.assign(plan.end_address(), std::byte{0xa5});
  out.sums.resize(plan.model().digest_slots());
  const OpenSources sources = open_sources(plan.catalog());
  const UnitFiller filler(plan, sources);
  for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at)) {
    std::vector<std::byte> scratch(filler.scratch_bytes(at), std::byte{0xa5});
    std::vector<SlotDigest> digests;
    const std::uint64_t region = plan.units()[plan.group_of(at).leaf].region_bytes();
    out.overflows += filler.fill(at, std::span(out.space).subspan(plan.address_of(at), region),
                                 scratch, digests);
    for (const SlotDigest& digest : digests) out.sums[digest.slot] += digest.sum;
  }
  return out;
}

std::string coded_element_at(const Plan& plan, const std::vector<std::byte>& space,
                             std::uint64_t element) {
  const Shape& shape = plan.model().leaves[0].shape;
  const Grid& grid = plan.grids()[0];
  const std::size_t size = size_bits(plan.model().leaves[0].dtype) / 8;
  Shape chunk = shape;
  std::uint64_t within = 0;
  const Shape strides = shape.strides();
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const std::uint64_t x = element / strides[d] % shape[d];
    chunk[d] = x / grid.chunk[d];
    within = within * grid.chunk[d] + x % grid.chunk[d];
  }
  const Place place = plan.place(0, chunk);
  std::string out(size, '\0');
  std::memcpy(out.data(),
              &space[plan.file_begin()[place.file] + place.offset_bytes + within * size], size);
  return out;
}

TEST(CodedFiller, FillsWhatASlowReferenceSaysHoweverItIsCut) {
  std::uint64_t overflows = 0;
  std::uint64_t cuts_with_several_units = 0;
  for (int round = 0; round < kCodedRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    CodedModel made(kCodedSeed + static_cast<std::uint64_t>(round));
    const TempDir dir;
    made.builder.write(dir / "model.safetensors");
    const Catalog catalog = open_catalog(dir / "model.safetensors");
    const CodedModel::Wanted wanted = made.wanted();
    overflows += wanted.overflows;
    std::optional<std::vector<Digest128>> sums;
    for (int cut = 0; cut < 3; ++cut) {
      SCOPED_TRACE("cut " + std::to_string(cut));
      const Plan plan = random_plan(catalog, made.model, made.random);
      cuts_with_several_units += plan.totals().units > 3;
      const CodedFilled filled = fill_coded(plan);
      ASSERT_FALSE(plan.grids()[0].has_inner());
      for (const auto& [element, bytes] : wanted.elements)
        ASSERT_EQ(coded_element_at(plan, filled.space, element), bytes) << "element " << element;
      EXPECT_EQ(filled.overflows, wanted.overflows);
      if (!sums) sums = filled.sums;
      EXPECT_EQ(*sums, filled.sums);
    }
  }
  EXPECT_GT(overflows, 500U);
  EXPECT_GT(cuts_with_several_units, 100U);
}

}  // namespace
}  // namespace hfshard
