#include "plan/compile/stored_dtypes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the dtype that a config states for all of its tensors.
std::optional<DType> dtype_of_config(const Bindings& bindings) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const ExprValue value = bindings.lookup(key);
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (*text == "bfloat16") return DType::bf16;
    if (*text == "float16") return DType::f16;
    if (*text == "float32") return DType::f32;
  }
  return std::nullopt;
}

}  // namespace

void StoredDTypes::add(DType dtype, std::uint32_t tensor) {
  const auto known = std::ranges::find(stored_, dtype, &std::pair<DType, std::uint32_t>::first);
  if (known == stored_.end()) stored_.emplace_back(dtype, tensor);
}

DType StoredDTypes::leaf_dtype(const std::string& name, const DTypeRule& rule,
                               const Bindings& bindings, const std::string& pointer) {
  const auto become = [&](DType stored) {
    return hfshard::leaf_dtype(builder_.options(), name, stored, rule);
  };
  const DType first = become(stored_.front().first);
  const bool agree =
      std::ranges::all_of(stored_, [&](const auto& item) { return become(item.first) == first; });
  if (agree) return first;
  const auto stays = std::ranges::find_if(
      stored_, [&](const auto& item) { return rule.stays && item.first == *rule.stays; });
  if (stays != stored_.end()) return become(stays->first);
  const auto stated = dtype_of_config(bindings);
  if (!stated || builder_.options().keep_dtype) fail(name, pointer);
  by_config_ = true;
  return become(*stated);
}

std::string StoredDTypes::tensors_text() const {
  std::vector<std::string> out;
  for (const auto& [dtype, tensor] : stored_)
    out.push_back(
        fmt::format("{} ({})", quote(builder_.catalog().tensors[tensor].name), to_string(dtype)));
  return join(out, " and ");
}

void StoredDTypes::fail(const std::string& name, const std::string& pointer) const {
  const Catalog& catalog = builder_.catalog();
  const TensorInfo& first = catalog.tensors[stored_[0].second];
  const TensorInfo& other = catalog.tensors[stored_[1].second];
  throw Error(ErrorCode::bad_input,
              fmt::format("the dtype is {} here and {} in {}, and both belong to leaf {}",
                          safetensors_name(other.dtype), safetensors_name(first.dtype),
                          quote(first.name), quote(name)))
      .in_tensor(other.name)
      .in_file(catalog.file_name(other))
      .by_rule(pointer)
      .hint(
          "pass --dtype bf16 or --dtype f32 to write both in one dtype, --cast 'LEAF=f32' to do so "
          "for one leaf, or --layers separate to keep each layer's dtype");
}

}  // namespace hfshard
