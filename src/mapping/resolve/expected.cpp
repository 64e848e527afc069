// Lists the tensors that a checkpoint of a family has, from the names in its rules.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/family_info.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/quantization.h"
#include "mapping/tables/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.2: 32 elements share a scale.
constexpr std::uint64_t kMxBlock = 32;
constexpr std::uint64_t kCodeBits = 4;

// Tensors that published checkpoints don't quantize: `modules_to_not_convert` and such.
constexpr std::array<std::string_view, 8> kPlain = {
    "*embed*", "*lm_head*", "head.*", "*norm*", "*.gate.*", "*router*", "*vis*", "*mtp.*eh_*"};

bool is_quantized(const Json& config) {
  const auto has = [](const Json& at) {
    const Json* found = at.find("quantization_config");
    return found != nullptr && !found->is_null();
  };
  const Json* text = config.find("text_config");
  return has(config) || (text != nullptr && has(*text));
}

DType stored_as(const DecodeRule& rule, DType usual) {
  return rule.dtypes.empty() ? usual : rule.dtypes.front();
}

class Expected {
 public:
  Expected(const MappingTable& table, const Bindings& bindings, bool quantized)
      : table_(table), bindings_(bindings), quantized_(quantized) {}

  void add(const std::string& name, const Shape& shape, const Rule& rule) {
    const auto [found, added] = shapes_.emplace(name, shape);
    if (!added) {
      if (found->second == shape) return;
      throw Error(ErrorCode::bad_input,
                  fmt::format("rules give {} the shapes {} and {}", quote(name),
                              to_string(found->second), to_string(shape)))
          .in_tensor(name)
          .by_rule(rule.pointer);
    }
    const DecodeRule* codes = decoder(name, shape);
    if (rule.modifiers.integers) {
      out_.push_back({name, shape, rule.modifiers.integers, false});
    } else if (keeps_codes(bindings_.options())) {
      add_kept(codes, name, shape);
    } else if (codes == nullptr) {
      out_.push_back({name, shape, {}, false});
    } else {
      add_codes(*codes, name, shape);
    }
  }

  std::vector<ExpectedTensor> take() && {
    for (const auto& [code, scale] : kept_) {  // rules name the scales of codes
      if (shapes_.contains(scale)) out_[code].dtype = DType::f8_e4m3;
    }
    std::ranges::sort(out_, {}, &ExpectedTensor::name);
    return std::move(out_);
  }

 private:
  const DecodeRule* decoder(std::string_view name, const Shape& shape) const {
    if (!quantized_ || shape.rank() < 2) return nullptr;
    for (const std::vector<DecodeRule>* list : {&table_.decodes, &quantization().decodes}) {
      if (const DecodeRule* rule = decoder_of(*list, name)) return rule;
    }
    return nullptr;
  }

  const DecodeRule* decoder_of(const std::vector<DecodeRule>& list, std::string_view name) const {
    for (const DecodeRule& rule : list) {
      if (!rule.takes(name, std::nullopt, bindings_) || !rule.is_usual(bindings_)) continue;
      if (!rule.name && !name.ends_with(".weight")) continue;
      const bool plain = !is_packed(rule.kind) &&
                         std::ranges::any_of(
                             kPlain, [&](std::string_view glob) { return glob_match(glob, name); });
      if (!plain) return &rule;
    }
    return nullptr;
  }

  std::uint64_t block(const DecodeRule& rule, std::size_t axis, std::uint64_t usual) const {
    const std::int64_t value = rule.block.empty() ? 0 : rule.block[axis].integer(bindings_);
    return value > 0 ? static_cast<std::uint64_t>(value) : usual;
  }

  void add_codes(const DecodeRule& rule, const std::string& name, const Shape& shape) {
    const std::size_t last = shape.rank() - 1;
    Shape stored = shape;
    Shape scales = shape;
    DType codes = stored_as(rule, DType::f8_e4m3);
    DType scale = DType::f32;
    if (rule.kind == DecodeKind::mx) {
      codes = stored_as(rule, DType::u8);
      scale = DType::u8;
    } else if (rule.kind == DecodeKind::int4 || rule.kind == DecodeKind::packed) {
      codes = stored_as(rule, DType::i32);
      scale = DType::bf16;
    }
    if (rule.kind == DecodeKind::tensor) {
      scales = Shape{};
    } else if (rule.kind == DecodeKind::block) {
      scales[last - 1] = ceil_div(shape[last - 1], block(rule, 0, 1));
      scales[last] = ceil_div(shape[last], block(rule, 1, 1));
    } else {
      stored[last] = shape[last] * kCodeBits / size_bits(codes);
      scales[last] = ceil_div(shape[last], block(rule, 1, kMxBlock));
    }
    out_.push_back({name, stored, codes, false});
    out_.push_back({rule.scale_name(name), scales, scale, true});
  }

  void add_kept(const DecodeRule* rule, const std::string& name, const Shape& shape) {
    if (rule != nullptr) kept_.emplace_back(out_.size(), rule->scale_name(name));
    out_.push_back({name, shape, {}, false});
  }

  const MappingTable& table_;
  const Bindings& bindings_;
  bool quantized_;
  std::map<std::string, Shape> shapes_;
  std::vector<std::pair<std::size_t, std::string>>
      kept_;  // codes, and what their scales are called
  std::vector<ExpectedTensor> out_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const FamilyFile& family, const Json& config,
                                             const std::map<std::string, std::string>& options,
                                             std::string_view scheme_name) {
  const MappingTable table = load_table(family);
  check_options(table, options);
  Bindings bindings(table, config, options, {});
  const Scheme& scheme = table.scheme_or_main(scheme_name);
  // Prefers separate layers, since not every model can fill stacks.
  const ResolvedModel model = resolve(scheme, bindings, !has_layout(scheme, bindings, false));
  Expected out(table, bindings, is_quantized(config));
  for (const ResolvedRule& rule : model.rules) {
    for (const std::string& name : rule.sources)
      out.add(name, rule.source_layout.shape, *rule.rule);
  }
  return std::move(out).take();
}

}  // namespace hfshard
