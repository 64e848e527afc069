#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/floats.h"
#include "base/text.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

float constant(const ValueConstant& rule, const Bindings& bindings) {
  const auto value = static_cast<float>(rule.expr.real(bindings));
  return rule.const_dtype == DType::bf16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

Value value_of(const ValueRule& rule, const Bindings& bindings) {
  Value out;
  if (rule.mul) out.mul = constant(*rule.mul, bindings);
  if (rule.add) out.add = constant(*rule.add, bindings);
  return out;
}

IndexMap map_of(const LaidOutPattern& source, const LaidOutPattern& target) {
  IndexMap out;
  out.src_base = source.base;
  out.dst_base = target.base;
  for (const Walk& walk : target.walks) {
    if (walk.extent == 1) continue;
    const auto from = std::ranges::find(source.walks, walk.dim, &Walk::dim);
    const auto src_step = from == source.walks.end() ? 0 : static_cast<std::int64_t>(from->step);
    out.digits.push_back({walk.extent, src_step, static_cast<std::int64_t>(walk.step)});
  }
  return out;
}

class RuleCompiler {
 public:
  RuleCompiler(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
               ModelBuilder& builder)
      : table_(table),
        bindings_(bindings),
        builder_(builder),
        model_(builder.model()),
        takes_rest_(!scheme.rest.empty()) {}

  // Marks every tensor that a rule or a drop names: before any shape is looked at, so that a model
  // of another generation is told by its names.
  void match_names(const ResolvedModel& model) {
    for (const ResolvedRule& rule : model.rules) {
      if (takes_rest_ && !has_any(rule)) continue;
      for (const std::string& name : rule.sources) {
        const auto found = builder_.catalog().find(name);
        if (!found) {
          missing_.push_back({name, rule.rule->pointer});
        } else if (!builder_.excluded(*found) && !(takes_rest_ && rule.rule->modifiers.copy)) {
          builder_.mark(*found, TensorUse::mapped);
          mark_scales(tensor(*found));
        }
      }
    }
    for (const ResolvedDrop& drop : model.drops) {
      for (const std::string& name : drop.sources) {
        for_each_tensor(name, [&](std::uint32_t found) {
          if (builder_.use(found) == TensorUse::none) builder_.mark(found, TensorUse::dropped);
        });
      }
    }
  }

  // The scales of a coded tensor that is excluded go with it.
  void leave_out_scales(const ResolvedModel& model) {
    for (const ResolvedRule& rule : model.rules) {
      for (const std::string& name : rule.sources) {
        const auto coded = builder_.catalog().find(name);
        if (!coded || !builder_.excluded(*coded)) continue;
        const DecodeRule* decoder = find_decode(table_, bindings_, tensor(*coded));
        if (decoder == nullptr) continue;
        const auto scales = builder_.catalog().find(decoder->scale_name(name));
        if (!scales || builder_.use(*scales) != TensorUse::none) continue;
        builder_.drop_whole(*scales, builder_.rule(decoder->pointer),
                            fmt::format("scales of {}, which is left out", quote(name)));
        builder_.mark(*scales, TensorUse::excluded);
      }
    }
  }

  void transfer(const ResolvedRule& resolved) {
    const std::vector<std::uint32_t> sources = find_sources(resolved);
    if (sources.empty()) return;
    const Rule& rule = *resolved.rule;
    const TensorInfo& first = tensor(sources.front());
    const DecodeRule* decoder = find_decode(table_, bindings_, first);
    for (const std::uint32_t source : sources)
      check_source(decoder, first, tensor(source), resolved);
    Transfer out;
    out.rule = builder_.rule(rule.pointer);
    out.source_shape = resolved.source_layout.shape;
    out.source_dtype = first.dtype;
    if (decoder != nullptr) {
      out.decode = std::make_shared<const Decode>(
          compile_decode(*decoder, bindings_, sources, out.source_shape, builder_));
      if (code_bits(out.decode->form.code) == 4) out.source_dtype = DType::f4;
    }
    out.value = value_of(rule.modifiers.value, bindings_);
    out.copy = rule.modifiers.copy;
    const DType natural = decoder != nullptr ? DType::bf16 : first.dtype;
    const std::string name = builder_.leaf_name(resolved.target);
    const DType dtype =
        leaf_dtype(builder_.options(), name, natural, {rule.modifiers.dtype, rule.modifiers.stays});
    check_values(out, first, dtype, rule);
    out.target = leaf(name, dtype, resolved.target_layout.shape, resolved.axes, resolved.stacked,
                      rule.pointer);
    for (const ResolvedLoop& loop : resolved.loops) {
      out.loops.push_back({loop.extent, static_cast<std::int64_t>(loop.target_step)});
    }
    out.map = map_of(resolved.source_layout, resolved.target_layout);
    out.sources = sources;
    model_.transfers.push_back(std::move(out));
  }

  void fill(const ResolvedFill& resolved) {
    if (left_out_.contains(resolved.target) && !leaves_.contains(resolved.target)) return;
    const FillRule& rule = *resolved.rule;
    const auto known = leaves_.find(resolved.target);
    if (known == leaves_.end() && !rule.modifiers.dtype) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("leaf {} has only fills and needs a dtype", quote(resolved.target)))
          .by_rule(rule.pointer);
    }
    const DType dtype = known != leaves_.end()
                            ? model_.leaves[known->second].dtype
                            : leaf_dtype(builder_.options(), resolved.target, *rule.modifiers.dtype,
                                         {rule.modifiers.dtype, {}});
    Fill out;
    out.rule = builder_.rule(rule.pointer);
    out.scalar = rule.scalar;
    out.target = leaf(resolved.target, dtype, resolved.layout.shape, resolved.axes,
                      resolved.stacked, rule.pointer);
    out.map.dst_base = resolved.layout.base;
    for (const ResolvedLoop& loop : resolved.loops) {
      if (loop.extent == 1) continue;
      out.map.digits.push_back({loop.extent, 0, static_cast<std::int64_t>(loop.target_step)});
    }
    for (const Walk& walk : resolved.layout.walks) {
      if (walk.extent == 1) continue;
      out.map.digits.push_back({walk.extent, 0, static_cast<std::int64_t>(walk.step)});
    }
    model_.fills.push_back(out);
  }

  void drop(const ResolvedDrop& resolved) {
    for (std::size_t i = 0; i < resolved.sources.size(); ++i) {
      const std::string& name = resolved.sources[i];
      const std::string same_as = resolved.same_as.empty() ? "" : resolved.same_as[i];
      for_each_tensor(name, [&](std::uint32_t found) { drop_one(resolved, found, same_as); });
    }
  }

  // A leaf that some rules left out and others did not.
  void check_left_out() const {
    for (const auto& [target, name] : left_out_) {
      if (leaves_.contains(target)) fail_partly(target, name);
    }
  }

  const std::vector<MissingTensor>& missing() const noexcept { return missing_; }

 private:
  const TensorInfo& tensor(std::uint32_t index) const { return builder_.catalog().tensors[index]; }

  bool has_any(const ResolvedRule& rule) const {
    return std::ranges::any_of(rule.sources, [&](const std::string& name) {
      return builder_.catalog().find(name).has_value();
    });
  }

  // Every tensor with this name, which may hold `*`.
  template <typename Visit>
  void for_each_tensor(const std::string& name, const Visit& visit) const {
    if (name.find('*') == std::string::npos) {
      const auto found = builder_.catalog().find(name);
      if (found) visit(*found);
      return;
    }
    for (std::uint32_t t = 0; t < builder_.catalog().tensors.size(); ++t) {
      if (glob_match(name, tensor(t).name)) visit(t);
    }
  }

  void mark_scales(const TensorInfo& coded) {
    const DecodeRule* decoder = find_decode(table_, bindings_, coded);
    if (decoder == nullptr) return;
    const auto scales = builder_.catalog().find(decoder->scale_name(coded.name));
    if (scales) builder_.mark(*scales, TensorUse::mapped);
  }

  [[noreturn]] static void fail_partly(const std::string& target, const std::string& name) {
    throw Error(ErrorCode::usage,
                fmt::format("leaf {} would be only partly covered", quote(target)))
        .in_tensor(name)
        .hint("--include and --exclude must take all of its source tensors or none");
  }

  // Empty if the leaf is left out or a tensor is missing.
  std::vector<std::uint32_t> find_sources(const ResolvedRule& resolved) {
    std::vector<std::uint32_t> out;
    out.reserve(resolved.sources.size());
    const std::string* excluded = nullptr;
    bool missing = false;
    for (const std::string& name : resolved.sources) {
      const auto found = builder_.catalog().find(name);
      if (!found) {
        missing = true;
      } else if (builder_.excluded(*found)) {
        excluded = &name;
      } else {
        out.push_back(*found);
      }
    }
    if (excluded != nullptr) {
      if (!out.empty() || missing) fail_partly(resolved.target, *excluded);
      left_out_.emplace(resolved.target, *excluded);
    }
    if (missing) out.clear();
    return out;
  }

  void check_source(const DecodeRule* decoder, const TensorInfo& first, const TensorInfo& other,
                    const ResolvedRule& resolved) const {
    const Rule& rule = *resolved.rule;
    const Shape& shape = resolved.source_layout.shape;
    if (find_decode(table_, bindings_, other) != decoder || other.dtype != first.dtype) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("dtype is {} here and {} in {}, and both go to leaf {}",
                              safetensors_name(other.dtype), safetensors_name(first.dtype),
                              quote(first.name), quote(resolved.target)))
          .in_tensor(other.name)
          .in_file(builder_.catalog().file_name(other))
          .by_rule(rule.pointer)
          .hint("--layers separate keeps a dtype for each layer");
    }
    if (decoder != nullptr && holds_codes(*decoder, other, shape)) return;
    check_shape(builder_.catalog(), other, rule.source_pattern, shape, bindings_, rule.pointer);
    if (decoder == nullptr) return;
    throw Error(ErrorCode::bad_input,
                fmt::format("{} packed codes of shape {} are needed, and the tensor is {} {}",
                            to_string(decoder->kind), to_string(shape),
                            safetensors_name(other.dtype), to_string(other.shape)))
        .in_tensor(other.name)
        .in_file(builder_.catalog().file_name(other))
        .by_rule(rule.pointer);
  }

  // Whether the leaf's values can be computed at all.
  void check_values(const Transfer& out, const TensorInfo& first, DType dtype,
                    const Rule& rule) const {
    if (out.decode && builder_.options().keep_dtype) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the tensor is quantised ({} with scales), which the target cannot "
                              "hold as it is",
                              safetensors_name(first.dtype)))
          .in_tensor(first.name)
          .by_rule(rule.pointer)
          .hint("--dtype bf16 or --dtype f32 decodes it");
    }
    const DType from = out.decode ? DType::f32 : first.dtype;
    const bool same = !out.decode && out.value.empty() && dtype == first.dtype;
    if (same || can_apply_value(out.value, from, dtype)) return;
    throw Error(ErrorCode::unsupported, fmt::format("values of dtype {} cannot be computed as {}",
                                                    to_string(first.dtype), to_string(dtype)))
        .in_tensor(first.name)
        .by_rule(rule.pointer)
        .hint("casts and value rules work on f16, bf16 and f32");
  }

  std::uint32_t leaf(const std::string& path, DType dtype, const Shape& shape,
                     const std::vector<std::string>& axes, const std::vector<bool>& stacked,
                     const std::string& pointer) {
    const auto [found, added] =
        leaves_.emplace(path, static_cast<std::uint32_t>(model_.leaves.size()));
    if (added) {
      Leaf out;
      out.name = path;
      if (!builder_.options().flat_names) check_path(path);
      out.dtype = dtype;
      out.shape = shape;
      if (!takes_rest_) {  // whose other leaves have none
        out.axes = axes;
        out.stacked = stacked;
      }
      model_.leaves.push_back(std::move(out));
      return found->second;
    }
    const Leaf& known = model_.leaves[found->second];
    if (known.dtype != dtype) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("leaf {} gets {} here and {} from another rule", quote(path),
                              to_string(dtype), to_string(known.dtype)))
          .by_rule(pointer);
    }
    const bool same_axes = takes_rest_ || (known.axes == axes && known.stacked == stacked);
    if (!(known.shape == shape) || !same_axes) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("leaf {} is {} here and {} in another rule, or its axes differ",
                              quote(path), to_string(shape), to_string(known.shape)))
          .by_rule(pointer);
    }
    return found->second;
  }

  void drop_one(const ResolvedDrop& resolved, std::uint32_t source, const std::string& same_as) {
    if (builder_.excluded(source)) return;
    const DropRule& rule = *resolved.rule;
    const TensorInfo& info = tensor(source);
    Drop out;
    out.source = source;
    out.rule = builder_.rule(rule.pointer);
    out.why = rule.why;
    if (rule.pattern.whole) {
      out.map = identity_map(info.shape);
    } else {
      check_shape(builder_.catalog(), info, rule.pattern, resolved.layout.shape, bindings_,
                  rule.pointer);
      out.map.src_base = resolved.layout.base;
      for (const Walk& walk : resolved.layout.walks) {
        if (walk.extent == 1) continue;
        out.map.digits.push_back({walk.extent, static_cast<std::int64_t>(walk.step), 0});
      }
    }
    if (!same_as.empty()) out.same_as = twin(rule, info, same_as);
    model_.drops.push_back(std::move(out));
  }

  std::uint32_t twin(const DropRule& rule, const TensorInfo& info, const std::string& name) const {
    const auto found = builder_.catalog().find(name);
    const bool same =
        found && tensor(*found).shape == info.shape && tensor(*found).dtype == info.dtype;
    if (same) return *found;
    throw Error(found ? ErrorCode::bad_input : ErrorCode::not_found,
                fmt::format("the tensor should equal {}, which {}", quote(name),
                            found ? "has another shape or dtype" : "is missing"))
        .in_tensor(info.name)
        .by_rule(rule.pointer);
  }

  const MappingTable& table_;
  const Bindings& bindings_;
  ModelBuilder& builder_;
  CompiledModel& model_;
  bool takes_rest_;
  std::unordered_map<std::string, std::uint32_t> leaves_;
  std::unordered_map<std::string, std::string> left_out_;  // leaf -> one of its excluded sources
  std::vector<MissingTensor> missing_;
};

}  // namespace

void compile_rules(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                   const ResolvedModel& resolved, ModelBuilder& builder) {
  RuleCompiler compiler(table, scheme, bindings, builder);
  compiler.match_names(resolved);
  compiler.leave_out_scales(resolved);
  check_all_used(table, scheme, bindings, builder, compiler.missing());
  for (const ResolvedRule& rule : resolved.rules) compiler.transfer(rule);
  compiler.check_left_out();
  for (const ResolvedDrop& drop : resolved.drops) compiler.drop(drop);
  for (const ResolvedFill& fill : resolved.fills) compiler.fill(fill);
}

}  // namespace hfshard
