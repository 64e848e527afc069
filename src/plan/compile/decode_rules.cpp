#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A tensor as rows and columns, whatever stands before its last two axes.
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

// What `quantization_config.quant_method` is called where a `decode` of a family can describe it.
// Source: huggingface/transformers src/transformers/utils/quantization_config.py,
// QuantizationMethod.
constexpr std::array<std::string_view, 3> kMethods = {"fp8", "mxfp4", "compressed-tensors"};

// The quant_method of a config or of its text part; empty if it is not quantised.
std::string quant_method(const Json& config) {
  const Json* text = config.find("text_config");
  for (const Json* at : {&config, text}) {
    const Json* found = at == nullptr ? nullptr : at->find("quantization_config");
    const Json* method = found == nullptr ? nullptr : found->find("quant_method");
    if (method != nullptr && method->is_string()) return method->as_string();
  }
  return {};
}

class DecodeCompiler {
 public:
  DecodeCompiler(const DecodeRule& rule, const Bindings& bindings, ModelBuilder& builder)
      : rule_(rule), bindings_(bindings), builder_(builder), catalog_(builder.catalog()) {}

  Decode compile(const std::vector<std::uint32_t>& sources, const Shape& view) {
    Decode out;
    for (const std::uint32_t source : sources) out.scales.push_back(scale_of(tensor(source)));
    const TensorInfo& first = tensor(sources.front());
    const TensorInfo& scale = tensor(out.scales.front());
    out.form = form(first, scale, view);
    for (const std::uint32_t other : out.scales) {
      if (tensor(other).shape == scale.shape && tensor(other).dtype == scale.dtype) continue;
      fail(tensor(other),
           fmt::format("the scales are {} {} here and {} {} in {}",
                       safetensors_name(tensor(other).dtype), to_string(tensor(other).shape),
                       safetensors_name(scale.dtype), to_string(scale.shape), quote(scale.name)));
    }
    return out;
  }

 private:
  const TensorInfo& tensor(std::uint32_t index) const { return catalog_.tensors[index]; }

  [[noreturn]] void fail(const TensorInfo& at, const std::string& sentence) const {
    throw Error(ErrorCode::bad_input, sentence)
        .in_file(catalog_.file_name(at))
        .in_tensor(at.name)
        .by_rule(rule_.pointer);
  }

  std::uint32_t scale_of(const TensorInfo& coded) {
    const std::string name = rule_.scale_name(coded.name);
    const auto found = catalog_.find(name);
    if (!found) {
      throw Error(ErrorCode::not_found,
                  fmt::format("the tensor is quantised ({}), and its scales {} are missing",
                              safetensors_name(coded.dtype), quote(name)))
          .in_tensor(coded.name)
          .by_rule(rule_.pointer)
          .hint("is the download complete?");
    }
    if (!is_scale_dtype(tensor(*found).dtype)) {
      fail(tensor(*found),
           fmt::format("scales of dtype {} are not known", safetensors_name(tensor(*found).dtype)));
    }
    builder_.mark(*found, TensorUse::mapped);
    return *found;
  }

  Code code_of(const TensorInfo& coded) const {
    switch (rule_.kind) {
      case DecodeKind::mx:
        return Code::f4_e2m1;
      case DecodeKind::int4:
        return Code::int4;
      default:
        if (coded.dtype == DType::f8_e4m3) return Code::f8_e4m3;
        if (coded.dtype == DType::f8_e5m2) return Code::f8_e5m2;
        fail(coded, fmt::format("no decoder knows {}", safetensors_name(coded.dtype)));
    }
  }

  std::uint64_t extent(std::size_t axis) const {
    const std::int64_t value = rule_.block[axis].integer(bindings_);
    if (value > 0) return static_cast<std::uint64_t>(value);
    throw Error(ErrorCode::bad_input, fmt::format("a block of {} is not possible", value))
        .by_rule(rule_.block[axis].pointer());
  }

  BlockScale form(const TensorInfo& coded, const TensorInfo& scale, const Shape& view) const {
    BlockScale out;
    out.code = code_of(coded);
    out.scale_dtype = scale.dtype;
    const Matrix matrix = matrix_of(view);
    out.rows = std::max<std::uint64_t>(matrix.rows, 1);
    out.cols = std::max<std::uint64_t>(matrix.cols, 1);
    if (rule_.kind == DecodeKind::tensor) {  // one matrix, one block
      out.rows *= std::max<std::uint64_t>(matrix.stack, 1);
      out.row_block = out.rows;
      out.col_block = out.cols;
      if (scale.shape.numel() != 1) fail_scales(coded, scale, 1);
      return out;
    }
    const Matrix scales = matrix_of(scale.shape);
    if (!rule_.block.empty()) {
      out.row_block = extent(0);
      out.col_block = extent(1);
    } else {
      if (scales.rows == 0 || scales.cols == 0 || out.rows % scales.rows != 0 ||
          out.cols % scales.cols != 0) {
        fail(coded, fmt::format("scales of shape {} do not divide codes of shape {}",
                                to_string(scale.shape), to_string(view)));
      }
      out.row_block = out.rows / scales.rows;
      out.col_block = out.cols / scales.cols;
    }
    const std::uint64_t wanted = matrix.stack * out.scales_per_matrix();
    const bool fits = scales.cols == out.scales_per_row() && scale.shape.numel() == wanted;
    if (!fits) fail_scales(coded, scale, wanted);
    return out;
  }

  [[noreturn]] void fail_scales(const TensorInfo& coded, const TensorInfo& scale,
                                std::uint64_t wanted) const {
    fail(scale, fmt::format("{} scales are wanted for {} ({}), and these are {}", wanted,
                            quote(coded.name), to_string(coded.shape), to_string(scale.shape)));
  }

  const DecodeRule& rule_;
  const Bindings& bindings_;
  ModelBuilder& builder_;
  const Catalog& catalog_;
};

}  // namespace

void check_quantisation(const MappingTable& table, const Json& config,
                        const std::string& location) {
  const std::string method = quant_method(config);
  if (method.empty()) return;
  const bool known = std::ranges::find(kMethods, method) != kMethods.end();
  if (known && !table.decodes.empty()) return;
  throw Error(ErrorCode::unsupported, fmt::format("family {} has no decoder for quant_method {}",
                                                  quote(table.family), quote(method)))
      .in_file(config_path(location))
      .hint("convert the checkpoint that was not quantised, or --scheme hf to keep the codes");
}

const DecodeRule* find_decode(const MappingTable& table, const Bindings& bindings,
                              const TensorInfo& tensor) {
  for (const DecodeRule& rule : table.decodes) {
    if (rule.takes(tensor.name, tensor.dtype, bindings)) return &rule;
  }
  return nullptr;
}

bool holds_codes(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view) {
  if (!is_packed(rule.kind)) return tensor.shape == view;
  // The last axis of the rule may stand for several of the tensor's, the last of them packed.
  if (view.rank() == 0 || tensor.shape.rank() < view.rank()) return false;
  for (std::size_t axis = 0; axis + 1 < view.rank(); ++axis) {
    if (tensor.shape[axis] != view[axis]) return false;
  }
  std::uint64_t inner = 1;
  for (std::size_t axis = view.rank() - 1; axis < tensor.shape.rank(); ++axis)
    inner *= tensor.shape[axis];
  return inner * size_bits(tensor.dtype) == view[view.rank() - 1] * 4;
}

Decode compile_decode(const DecodeRule& rule, const Bindings& bindings,
                      const std::vector<std::uint32_t>& sources, const Shape& view,
                      ModelBuilder& builder) {
  return DecodeCompiler(rule, bindings, builder).compile(sources, view);
}

DType leaf_dtype(const MappingOptions& options, std::string_view path, DType natural,
                 const DTypeRule& rule) {
  if (!is_float(natural)) return rule.floor.value_or(natural);
  const auto cast = std::find_if(options.casts.rbegin(), options.casts.rend(),
                                 [&](const Cast& item) { return glob_match(item.glob, path); });
  if (cast != options.casts.rend()) return cast->dtype;
  const DType wanted = rule.stays == natural ? natural : options.dtype.value_or(natural);
  return rule.floor && size_bits(wanted) < size_bits(*rule.floor) ? *rule.floor : wanted;
}

}  // namespace hfshard
