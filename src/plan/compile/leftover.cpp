#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"

namespace hfshard {
namespace {

constexpr const char* kQuantization = "quantization_config";
constexpr const char* kTextPart = "text_config";

// Endings of the names of tensors that quantized weights have in addition, or instead. Sources:
// huggingface/transformers src/transformers/quantizers, and the libraries that it calls:
// bitsandbytes, GPTQModel, AutoAWQ, compressed-tensors, fbgemm, hqq, aqlm, modelopt.
constexpr std::array<std::string_view, 26> kSigns = {
    ".qweight",      ".qzeros",          ".g_idx",         "weight_scale", "weight_scale_inv",
    "weight_packed", "weight_shape",     "weight_scale_2", "_zero_point",  "_blocks",
    "_scales",       "activation_scale", "input_scale",    ".absmax",      ".quant_map",
    ".SCB",          ".scales",          ".W_q",           ".codes",       ".codebooks",
    ".Qidxs",        ".indices",         ".scale",         ".k_scale",     ".v_scale",
    "_global_scale"};

// Finds integers in a matrix. Buffers of positions have one row.
bool holds_integers(const TensorInfo& tensor) {
  const Shape& shape = tensor.shape;
  return !is_float(tensor.dtype) && tensor.dtype != DType::boolean && shape.rank() >= 2 &&
         shape[0] > 1;
}

bool is_coded(const TensorInfo& tensor) {
  if (is_name_of_codes(tensor.name)) return true;
  return is_float(tensor.dtype) ? size_bits(tensor.dtype) < 16 : holds_integers(tensor);
}

bool says_quantization(const Json& config) {
  const Json* said = config.find(kQuantization);
  return said != nullptr && !said->is_null();
}

bool has_quantization(const Json& config) {
  const Json* text = config.find(kTextPart);
  return says_quantization(config) ||
         (text != nullptr && text->is_object() && says_quantization(*text));
}

}  // namespace

bool is_name_of_codes(std::string_view name) {
  return name.find(".quant_state.") != std::string_view::npos ||
         std::ranges::any_of(kSigns, [&](std::string_view sign) { return name.ends_with(sign); });
}

Json without_quantization(Json config) {
  config.object().erase(kQuantization);
  if (const Json* text = config.find(kTextPart); text != nullptr && text->is_object())
    config[kTextPart].object().erase(kQuantization);
  return config;
}

std::optional<Json> without_leftover(const Json& config, const Catalog& catalog) {
  if (!has_quantization(config) || std::ranges::any_of(catalog.tensors, is_coded))
    return std::nullopt;
  return without_quantization(config);
}

std::optional<Json> without_leftover(const Json& config, const NameList& list) {
  if (!has_quantization(config) || std::ranges::any_of(list.names, is_name_of_codes))
    return std::nullopt;
  return without_quantization(config);
}

}  // namespace hfshard
