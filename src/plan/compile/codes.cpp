#include "plan/compile/codes.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/text.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kUsualBlock = 128;

// A tensor as rows and columns. All axes before the last two become a stack.
struct Matrix {
  std::uint64_t stack = 1;
  std::uint64_t rows = 1;
  std::uint64_t cols = 1;
};

Matrix matrix_of(const Shape& shape) {
  Matrix out;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis + 1 == shape.rank()) {
      out.cols = shape[axis];
    } else if (axis + 2 == shape.rank()) {
      out.rows = shape[axis];
    } else {
      out.stack *= shape[axis];
    }
  }
  return out;
}

// Returns the rows and columns of scales for each matrix of codes. A list has one scale per row or
// matrix.
Matrix scales_of(const Shape& shape, const Matrix& codes) {
  if (shape.rank() == 1 && shape[0] != 1) {
    if (codes.stack == 1 && shape[0] == codes.rows) return {1, codes.rows, 1};
    if (shape[0] == codes.stack) return {codes.stack, 1, 1};
  }
  return matrix_of(shape);
}

// The last axis of a rule can be several axes of a tensor, of which the last is packed.
std::optional<std::uint64_t> packed_extent(const TensorInfo& tensor, const Shape& view) {
  if (view.rank() == 0 || tensor.shape.rank() < view.rank()) return std::nullopt;
  for (std::size_t axis = 0; axis + 1 < view.rank(); ++axis) {
    if (tensor.shape[axis] != view[axis]) return std::nullopt;
  }
  std::uint64_t inner = 1;
  for (std::size_t axis = view.rank() - 1; axis < tensor.shape.rank(); ++axis)
    inner *= tensor.shape[axis];
  return inner * size_bits(tensor.dtype);
}

// Returns 0 if it can't be divided.
std::uint64_t part_of(std::uint64_t extent, std::uint64_t parts) {
  return parts != 0 && extent % parts == 0 ? extent / parts : 0;
}

// Returns whether blocks of this size, with smaller ones at the ends, are as many as the scales.
bool has_blocks(const BlockScale& codes, const Matrix& scales, std::uint64_t rows,
                std::uint64_t cols) {
  return ceil_div(codes.rows, rows) == scales.rows && ceil_div(codes.cols, cols) == scales.cols;
}

}  // namespace

bool is_named_as_scale(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  return last.find("scale") != std::string_view::npos;
}

std::optional<Code> code_of(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view) {
  if (!is_packed(rule.kind)) {
    if (!(tensor.shape == view)) return std::nullopt;
    if (rule.kind == DecodeKind::int8) return Code::int8;
    if (tensor.dtype == DType::f8_e4m3) return Code::f8_e4m3;
    if (tensor.dtype == DType::f8_e5m2) return Code::f8_e5m2;
    return std::nullopt;
  }
  const auto bits = packed_extent(tensor, view);
  const std::uint64_t last = view.rank() == 0 ? 0 : view[view.rank() - 1];
  if (!bits) return std::nullopt;
  if (*bits == last * 4) return rule.kind == DecodeKind::mx ? Code::f4_e2m1 : Code::int4;
  if (*bits == last * 8 && rule.kind == DecodeKind::packed) return Code::uint8;
  return std::nullopt;
}

std::uint32_t packed_bits(const Json& config, const std::string& location) {
  const std::set<std::int64_t> bits = packed_widths(config, location);
  if (bits.size() > 1)
    throw Error(
        ErrorCode::unsupported,
        "weights are packed with several bit widths, which only a family's rules tell apart")
        .in_file(config_path(location))
        .hint("decompress the model with compressed-tensors first");
  return bits.empty() ? 4 : static_cast<std::uint32_t>(*bits.begin());
}

const DecodeRule* Codes::decoder(const TensorInfo& tensor) const {
  if (keeps_codes(bindings_.options())) return nullptr;
  const std::array<const std::vector<DecodeRule>*, 2> lists{&table_.decodes,
                                                            &quantization().decodes};
  for (const std::vector<DecodeRule>* list : lists) {
    for (const DecodeRule& rule : *list) {
      if (rule.takes(tensor.name, tensor.dtype, bindings_) && is_complete(rule, tensor))
        return &rule;
    }
  }
  if (is_named_as_scale(tensor.name)) return nullptr;  // 8-bit scales aren't codes
  for (const std::vector<DecodeRule>* list : lists) {  // scales are missing
    for (const DecodeRule& rule : *list) {
      if (rule.takes(tensor.name, tensor.dtype, bindings_) && rule.is_usual(bindings_))
        return &rule;
    }
  }
  return nullptr;
}

bool Codes::is_complete(const DecodeRule& rule, const TensorInfo& coded) const {
  const auto scale = catalog_.find(rule.scale_name(coded.name));
  if (!scale) return false;
  if (!rule.scale_dtypes.empty() &&
      std::ranges::find(rule.scale_dtypes, tensor(*scale).dtype) == rule.scale_dtypes.end())
    return false;
  return rule.factor.empty() || catalog_.find(rule.beside(rule.factor, coded.name));
}

std::optional<std::uint32_t> Codes::find(std::string_view name) const {
  if (const auto found = catalog_.find(name)) return found;
  const std::string stored =
      stored_as(name, [&](std::string_view other) { return catalog_.find(other).has_value(); });
  return stored.empty() ? std::nullopt : catalog_.find(stored);
}

bool Codes::holds(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view) const {
  return is_packed(rule.kind) ? code_of(rule, tensor, view).has_value() : tensor.shape == view;
}

std::vector<std::uint32_t> Codes::beside(const DecodeRule& rule, const TensorInfo& tensor) const {
  std::vector<std::uint32_t> out;
  for (const std::string* pattern : {&rule.scale, &rule.zeros, &rule.factor}) {
    if (pattern->empty()) continue;
    if (const auto found = catalog_.find(rule.beside(*pattern, tensor.name))) out.push_back(*found);
  }
  return out;
}

CodedTensor Codes::coded(const DecodeRule& rule, const TensorInfo& coded, const Shape& view) const {
  CodedTensor out;
  out.scale = scale_of(rule, coded);
  out.form = form(rule, coded, tensor(out.scale), view);
  add_zeros(rule, coded, view.numel() / std::max<std::uint64_t>(out.form.rows * out.form.cols, 1),
            out);
  add_factor(rule, coded, out);
  return out;
}

void Codes::fail(const DecodeRule& rule, const TensorInfo& at, const std::string& sentence) const {
  throw Error(ErrorCode::bad_input, sentence)
      .in_file(catalog_.file_name(at))
      .in_tensor(at.name)
      .by_rule(rule.pointer);
}

std::uint32_t Codes::scale_of(const DecodeRule& rule, const TensorInfo& coded) const {
  const std::string name = rule.scale_name(coded.name);
  const auto found = catalog_.find(name);
  if (!found && scale_beside(coded, catalog_) != nullptr) {
    throw unknown_scales(coded, catalog_)
        .by_rule(rule.pointer)
        .hint(fmt::format("its scales would be {}; pass --scheme hf without --dtype to keep the "
                          "codes, or convert the unquantized model",
                          quote(name)));
  }
  if (!found) {
    throw Error(ErrorCode::not_found,
                fmt::format("the tensor is quantized ({}), and its scales {} are missing",
                            safetensors_name(coded.dtype), quote(name)))
        .in_tensor(coded.name)
        .by_rule(rule.pointer)
        .hint("check that the download is complete");
  }
  if (!is_scale_dtype(tensor(*found).dtype)) {
    fail(rule, tensor(*found),
         fmt::format("hfshard can't use scales of dtype {}",
                     safetensors_name(tensor(*found).dtype)));
  }
  return *found;
}

std::pair<std::uint64_t, std::uint64_t> Codes::block_of(const DecodeRule& rule) const {
  if (rule.block.empty()) return {0, 0};
  const auto known = blocks_.find(&rule);
  if (known != blocks_.end()) return known->second;
  const auto extent = [&](std::size_t axis) {
    const std::int64_t value = rule.block[axis].integer(bindings_);
    if (value >= 0) return static_cast<std::uint64_t>(value);
    throw Error(ErrorCode::bad_input, fmt::format("a block of {} isn't possible", value))
        .by_rule(rule.block[axis].pointer());
  };
  return blocks_.emplace(&rule, std::pair(extent(0), extent(1))).first->second;
}

BlockScale Codes::form(const DecodeRule& rule, const TensorInfo& coded, const TensorInfo& scale,
                       const Shape& view) const {
  BlockScale out;
  const auto code = code_of(rule, coded, view);
  if (!code)
    fail(rule, coded, fmt::format("hfshard has no decoder for {}", safetensors_name(coded.dtype)));
  out.code = *code;
  out.scale_dtype = scale.dtype;
  out.rounds_to_half = rule.rounds && scale.dtype == DType::f16;
  const Matrix matrix = matrix_of(view);
  out.rows = std::max<std::uint64_t>(matrix.rows, 1);
  out.cols = std::max<std::uint64_t>(matrix.cols, 1);
  const auto [rows, cols] = block_of(rule);
  const bool by_shape = rows == 0 || cols == 0;
  if (rule.kind == DecodeKind::tensor || (by_shape && scale.shape.numel() == 1)) {
    out.rows *= std::max<std::uint64_t>(matrix.stack, 1);  // one matrix, one block
    out.row_block = out.rows;
    out.col_block = out.cols;
    if (scale.shape.numel() != 1) fail_scales(rule, coded, scale, 1);
    return out;
  }
  const Matrix scales = scales_of(scale.shape, {matrix.stack, out.rows, out.cols});
  // If each row has scales, they are for equal parts of it, even if config.json describes other
  // blocks.
  const bool in_rows = scales.rows == out.rows || scale.shape.numel() == 1;
  out.row_block = rows;
  out.col_block = cols;
  if (by_shape && rule.usual && !in_rows && has_blocks(out, scales, kUsualBlock, kUsualBlock)) {
    out.row_block = out.col_block = kUsualBlock;
  } else if (by_shape || (rule.usual && in_rows && !has_blocks(out, scales, rows, cols))) {
    out.row_block = part_of(out.rows, scales.rows);
    out.col_block = part_of(out.cols, scales.cols);
  }
  if (out.row_block == 0 || out.col_block == 0) {
    fail(rule, coded,
         fmt::format("scales of shape {} don't divide codes of shape {}", to_string(scale.shape),
                     to_string(view)));
  }
  const std::uint64_t wanted = matrix.stack * out.scales_per_matrix();
  const bool fits = scales.cols == out.scales_per_row() && scale.shape.numel() == wanted;
  if (!fits) fail_scales(rule, coded, scale, wanted);
  return out;
}

void Codes::fail_scales(const DecodeRule& rule, const TensorInfo& coded, const TensorInfo& scale,
                        std::uint64_t wanted) const {
  fail(rule, scale,
       fmt::format("expected {} scales for {} ({}), found {}", wanted, quote(coded.name),
                   to_string(coded.shape), to_string(scale.shape)));
}

bool Codes::needs_zeros() const {
  if (!needs_zeros_) {
    Json config;
    if (!catalog_.config_text.empty())
      config = parse_json(catalog_.config_text, config_path(catalog_.location));
    needs_zeros_ = config.is_object() && has_zero_points(config);
  }
  return *needs_zeros_;
}

void Codes::add_zeros(const DecodeRule& rule, const TensorInfo& coded, std::uint64_t matrices,
                      CodedTensor& out) const {
  if (rule.zeros.empty()) return;
  const std::string name = rule.beside(rule.zeros, coded.name);
  out.zeros = catalog_.find(name);
  if (!out.zeros && needs_zeros()) {
    throw Error(ErrorCode::not_found,
                fmt::format("config.json says that the codes have zero points, and {} is missing",
                            quote(name)))
        .in_tensor(coded.name)
        .by_rule(rule.pointer)
        .hint("check that the download is complete");
  }
  if (!out.zeros) return;
  const TensorInfo& zeros = tensor(*out.zeros);
  if (zeros.dtype == DType::i8) {
    out.form.zeros = ZeroPoints::int8;
  } else if (zeros.dtype == DType::i32 && out.form.row_block == 1) {
    out.form.zeros = out.form.code == Code::int4 ? ZeroPoints::packed4 : ZeroPoints::packed8;
  } else {
    fail(rule, zeros,
         fmt::format("hfshard can't use zero points of dtype {}", safetensors_name(zeros.dtype)));
  }
  const std::uint64_t wanted = matrices * zero_bytes_per_matrix(out.form);
  const std::uint64_t bytes = packed_bytes(zeros.dtype, zeros.shape.numel());
  if (bytes != wanted) {
    fail(rule, zeros,
         fmt::format("zero points of {} have {} bytes, and these are {} with {}", quote(coded.name),
                     wanted, to_string(zeros.shape), bytes));
  }
}

void Codes::add_factor(const DecodeRule& rule, const TensorInfo& coded, CodedTensor& out) const {
  if (rule.factor.empty()) return;
  const std::string name = rule.beside(rule.factor, coded.name);
  out.factor = catalog_.find(name);
  if (!out.factor) {
    throw Error(ErrorCode::not_found, fmt::format("the tensor is quantized ({}), and {} is missing",
                                                  safetensors_name(coded.dtype), quote(name)))
        .in_tensor(coded.name)
        .by_rule(rule.pointer)
        .hint("check that the download is complete");
  }
  const TensorInfo& factor = tensor(*out.factor);
  if (factor.dtype != DType::f32 || factor.shape.numel() != 1) {
    fail(rule, factor,
         fmt::format("{} needs one F32 number, and this is {} {}", quote(coded.name),
                     safetensors_name(factor.dtype), to_string(factor.shape)));
  }
  out.form.factor = rule.divides ? Factor::divides : Factor::multiplies;
}

Decode decode_of(std::span<const CodedTensor> tensors) {
  Decode out;
  out.form = tensors.front().form;
  for (const CodedTensor& coded : tensors) {
    out.scales.push_back(coded.scale);
    if (coded.zeros) out.zeros.push_back(*coded.zeros);
    if (coded.factor) out.factors.push_back(*coded.factor);
  }
  return out;
}

}  // namespace hfshard
