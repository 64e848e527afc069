#include "plan/compile/kept_codes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/codes.h"

namespace hfshard {
namespace {

// Returns the name up to its last dot. Empty without a dot.
std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
}

// Returns whether a dtype is one of codes. E8M0 is one of scales.
bool has_codes(DType dtype) {
  return dtype != DType::boolean && dtype != DType::f8_e8m0 && size_bits(dtype) <= 8;
}

// Returns whether a dtype is one of words, which hold several codes each.
bool has_words(DType dtype) { return dtype == DType::i32 || dtype == DType::u32; }

// These are parameters of their own, whatever their module's codes are.
bool is_parameter(std::string_view name) {
  return name.ends_with("bias") || name.ends_with(".weight");
}

}  // namespace

bool holds_codes(const TensorInfo& tensor) {
  // Scalars and lists of integers are scales, zero points or shapes.
  return (has_words(tensor.dtype) || has_codes(tensor.dtype)) && tensor.shape.rank() >= 2 &&
         !is_named_as_scale(tensor.name);
}

void KeptCodes::add(const TensorInfo& tensor) {
  if (!holds_codes(tensor)) return;
  codes_.emplace(tensor.name, &tensor);
  (has_words(tensor.dtype) ? words_ : modules_).emplace(module_of(tensor.name), &tensor);
}

const TensorInfo* KeptCodes::codes_of(const TensorInfo& part) const {
  const auto find = [](const ByName& map, std::string_view name) -> const TensorInfo* {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : found->second;
  };
  if (codes_.empty() || find(codes_, part.name) != nullptr) return nullptr;
  for (std::string_view above = module_of(part.name); !above.empty(); above = module_of(above)) {
    if (const TensorInfo* codes = find(codes_, above)) return codes;
  }
  const std::string_view module = module_of(part.name);
  if (module.empty() || is_parameter(part.name)) return nullptr;
  if (const TensorInfo* codes = find(modules_, module)) return codes;
  return is_named_as_scale(part.name) ? find(words_, module) : nullptr;
}

Error cast_of_part(const std::string& part, const std::string& codes,
                   const MappingOptions& options) {
  return Error(ErrorCode::unsupported,
               fmt::format("the tensor belongs to {}, whose codes stay as stored, and {} would "
                           "change only this tensor",
                           quote(codes), options.casts.empty() ? "--dtype" : "--cast"))
      .in_tensor(part);
}

const TensorInfo* scale_beside(const TensorInfo& codes, const Catalog& catalog) {
  const std::string module = std::string(module_of(codes.name)) + ".";
  const auto found = std::ranges::find_if(catalog.tensors, [&](const TensorInfo& tensor) {
    return tensor.name.starts_with(module) && is_named_as_scale(tensor.name);
  });
  return found == catalog.tensors.end() ? nullptr : &*found;
}

Error unknown_scales(const TensorInfo& codes, const Catalog& catalog) {
  const TensorInfo* scale = scale_beside(codes, catalog);
  std::string sentence = fmt::format("the tensor is stored as {}, and hfshard doesn't know ",
                                     safetensors_name(codes.dtype));
  sentence += scale == nullptr ? std::string("its scales")
                               : fmt::format("the form of its scales, {}", quote(scale->name));
  return Error(ErrorCode::unsupported, sentence).in_tensor(codes.name);
}

}  // namespace hfshard
