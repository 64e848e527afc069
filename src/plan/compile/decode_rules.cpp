#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/quantization.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the quantizations in a config, at its top and in its text part.
std::vector<const Json*> quantizations_of(const Json& config) {
  std::vector<const Json*> out;
  const Json* text = config.find("text_config");
  for (const Json* at : {&config, text}) {
    const Json* found = at == nullptr ? nullptr : at->find("quantization_config");
    if (found != nullptr && found->is_object()) out.push_back(found);
  }
  return out;
}

void add_text(const Json& at, const char* key, std::vector<std::string>& out) {
  const Json* text = at.find(key);
  if (text != nullptr && text->is_string()) out.push_back(text->as_string());
}

// Returns the common format and those of groups.
std::vector<std::string> formats_of(const Json& quantized) {
  std::vector<std::string> out;
  add_text(quantized, "format", out);
  const Json* groups = quantized.find("config_groups");
  if (groups == nullptr || !groups->is_object()) return out;
  for (const auto& [name, group] : groups->as_object()) add_text(group, "format", out);
  return out;
}

// Returns the bits of a group's packed integers. Empty if it doesn't pack integers.
std::optional<std::int64_t> packed_width(const Json& quantized, const Json& group) {
  constexpr const char* kPacked = "pack-quantized";
  std::vector<std::string> format;
  add_text(group, "format", format);
  if (format.empty()) add_text(quantized, "format", format);
  const Json* weights = group.find("weights");
  if (weights == nullptr || !weights->is_object()) return std::nullopt;
  std::vector<std::string> type;
  add_text(*weights, "type", type);
  const Json* bits = weights->find("num_bits");
  const bool packed =
      (format.empty() || format.front() == kPacked) && (type.empty() || type.front() == "int");
  if (!packed || bits == nullptr || !bits->is_integer()) return std::nullopt;
  return bits->as_int();
}

bool have_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(
      a, [&](const std::string& text) { return std::ranges::find(b, text) != b.end(); });
}

}  // namespace

bool has_zero_points(const Json& config) {
  bool any = false;
  for (const Json* quantized : quantizations_of(config)) {
    const Json* groups = quantized->find("config_groups");
    if (groups == nullptr || !groups->is_object()) continue;
    for (const auto& [name, group] : groups->as_object()) {
      const Json* weights = group.is_object() ? group.find("weights") : nullptr;
      if (weights == nullptr || !weights->is_object()) continue;
      const Json* symmetric = weights->find("symmetric");
      if (symmetric == nullptr || !symmetric->is_bool() || symmetric->as_bool()) return false;
      any = true;
    }
  }
  return any;
}

std::set<std::int64_t> packed_widths(const Json& config, const std::string& location) {
  std::set<std::int64_t> out;
  for (const Json* quantized : quantizations_of(config)) {
    const Json* groups = quantized->find("config_groups");
    if (groups == nullptr || !groups->is_object()) continue;
    for (const auto& [name, group] : groups->as_object()) {
      const std::optional<std::int64_t> bits = packed_width(*quantized, group);
      if (bits) out.insert(*bits);
    }
  }
  for (const std::int64_t bits : out) {
    if (bits == 4 || bits == 8) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("pack-quantized weights of {} bits can't be decoded, only those of 4 "
                            "and 8",
                            bits))
        .in_file(config_path(location))
        .hint(
            "decompress the model with compressed-tensors first, or pass --scheme hf to keep the "
            "codes");
  }
  return out;
}

Error undecoded(const UndecodedMethod& method, std::string_view keep) {
  return Error(ErrorCode::unsupported,
               fmt::format("the checkpoint is quantized with {}, which can't be decoded",
                           method.what))
      .hint(fmt::format("{}, or {} to keep the codes", method.way, keep));
}

void check_quantization(const Json& config, const std::string& location, std::string_view keep) {
  packed_widths(config, location);
  for (const Json* quantized : quantizations_of(config)) {
    std::vector<std::string> method;
    add_text(*quantized, "quant_method", method);
    const std::vector<std::string> formats = formats_of(*quantized);
    for (const UndecodedMethod& known : quantization().undecoded) {
      if (have_common(method, known.methods) || have_common(formats, known.formats))
        throw undecoded(known, keep).in_file(config_path(location));
    }
    if (method.empty() || have_common(method, quantization().methods)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("the checkpoint is quantized with {}, which hfshard doesn't know",
                            quote(method.front())))
        .in_file(config_path(location))
        .hint(fmt::format("convert the unquantized model, or {} to keep the codes", keep));
  }
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
