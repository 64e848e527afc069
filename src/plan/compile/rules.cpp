#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/floats.h"
#include "base/text.h"
#include "mapping/tables/config_keys.h"
#include "mapping/tables/scheme_defaults.h"
#include "ops/value.h"
#include "plan/compile/alike.h"
#include "plan/compile/codes.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"
#include "plan/compile/stored_dtypes.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kTied = "tie_word_embeddings";

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

// The storage of a source. Codes have a form.
struct StoredKind {
  DType dtype = DType::bf16;
  std::optional<BlockScale> form;
  friend bool operator==(const StoredKind&, const StoredKind&) = default;
};

// The sources of a rule, and the storage of each.
struct RuleSources {
  const ResolvedRule* resolved = nullptr;
  std::vector<std::uint32_t> tensors;
  std::vector<StoredKind> known;
  std::vector<std::uint32_t> kinds;  // into `known`, by tensor
  std::vector<CodedTensor> coded;    // by tensor; empty without codes
};

class RuleCompiler {
 public:
  RuleCompiler(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
               ModelBuilder& builder)
      : table_(table),
        bindings_(bindings),
        builder_(builder),
        model_(builder.model()),
        codes_(table, bindings, builder.catalog()),
        takes_rest_(!scheme.rest.empty()) {}

  // Marks every tensor that a rule or a drop names. This comes before shapes, so that another
  // generation of a model is recognized by its names.
  void match_names(const ResolvedModel& model) {
    for (const ResolvedRule& rule : model.rules) {
      if (takes_rest_ && !has_any(rule)) continue;
      for (const std::string& name : rule.sources) {
        const auto found = codes_.find(name);
        if (!found) {
          missing_.push_back({name, rule.rule->pointer, is_of_untied(table_, *rule.rule)});
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

  // If a coded tensor is excluded, its scales are too.
  void leave_out_scales(const ResolvedModel& model) {
    for (const ResolvedRule& rule : model.rules) {
      for (const std::string& name : rule.sources) {
        const auto coded = codes_.find(name);
        if (!coded || !builder_.excluded(*coded)) continue;
        const DecodeRule* decoder = codes_.decoder(tensor(*coded));
        if (decoder == nullptr) continue;
        coded_ = true;
        for (const std::uint32_t beside : codes_.beside(*decoder, tensor(*coded))) {
          if (builder_.use(beside) != TensorUse::none) continue;
          builder_.drop_whole(beside, builder_.rule(decoder->pointer),
                              fmt::format("scales for {}, which is left out", quote(name)));
          builder_.mark(beside, TensorUse::excluded);
        }
      }
    }
    const ExprValue method = bindings_.lookup("quantization_config.quant_method");
    if (coded_ || !std::holds_alternative<Absent>(method)) drop_beside_codes(builder_);
  }

  // Looks at the tensors of a rule. `transfer` follows when those of all rules are known, since
  // several rules can write a leaf.
  void look_at(const ResolvedRule& resolved) {
    RuleSources out{&resolved, find_sources(resolved), {}, {}, {}};
    if (out.tensors.empty()) return;
    StoredDTypes& stored = stored_.try_emplace(resolved.target, builder_).first->second;
    for (const std::uint32_t source : out.tensors) {
      const DecodeRule* decoder = codes_.decoder(tensor(source));
      check_source(decoder, tensor(source), resolved);
      StoredKind kind{tensor(source).dtype, {}};
      if (decoder != nullptr) {
        out.coded.resize(out.kinds.size());
        out.coded.push_back(codes_.coded(*decoder, tensor(source), resolved.source_layout.shape));
        kind.form = out.coded.back().form;
      }
      stored.add(decoder != nullptr ? DType::bf16 : kind.dtype, source);
      const auto known = std::ranges::find(out.known, kind);
      out.kinds.push_back(static_cast<std::uint32_t>(known - out.known.begin()));
      if (known == out.known.end()) out.known.push_back(kind);
    }
    if (!out.coded.empty()) out.coded.resize(out.kinds.size());
    sources_.push_back(std::move(out));
  }

  void transfer() {
    for (const RuleSources& sources : sources_) {
      const ResolvedRule& resolved = *sources.resolved;
      const RuleModifiers& modifiers = resolved.rule->modifiers;
      const std::string name = builder_.leaf_name(resolved.target);
      const DType dtype = stored_.at(resolved.target)
                              .leaf_dtype(name, {modifiers.dtype, modifiers.stays}, bindings_,
                                          resolved.rule->pointer);
      for (const AlikeSources& alike : alike_sources(resolved.loops, sources.kinds))
        transfer(sources, alike, name, dtype);
    }
    note_mixed();
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

  // Refuses a leaf that only some rules left out.
  void check_left_out() {
    for (const auto& [target, name] : left_out_) {
      if (leaves_.contains(target)) fail_partly(target, name);
    }
    builder_.model().left_out_leaves = left_out_.size();
  }

  const std::vector<MissingTensor>& missing() const noexcept { return missing_; }

 private:
  const TensorInfo& tensor(std::uint32_t index) const { return builder_.catalog().tensors[index]; }

  bool has_any(const ResolvedRule& rule) const {
    return std::ranges::any_of(
        rule.sources, [&](const std::string& name) { return codes_.find(name).has_value(); });
  }

  // Visits every tensor with this name, which can have `*`.
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
    const DecodeRule* decoder = codes_.decoder(coded);
    if (decoder == nullptr) return;
    coded_ = true;
    for (const std::uint32_t beside : codes_.beside(*decoder, coded))
      builder_.mark(beside, TensorUse::mapped);
  }

  // Adds sources of a rule that are stored alike.
  void transfer(const RuleSources& sources, const AlikeSources& alike, const std::string& name,
                DType dtype) {
    const ResolvedRule& resolved = *sources.resolved;
    const Rule& rule = *resolved.rule;
    const StoredKind& kind = sources.known[sources.kinds[alike.first]];
    Transfer out;
    out.rule = builder_.rule(rule.pointer);
    out.source_shape = resolved.source_layout.shape;
    out.source_dtype = kind.dtype;
    if (kind.form) {
      out.decode = std::make_shared<const Decode>(
          decode_of(std::span(sources.coded).subspan(alike.first, alike.count)));
      out.source_dtype = codes_dtype(kind.form->code, kind.dtype);
    }
    out.value = value_of(rule.modifiers.value, bindings_);
    out.copy = rule.modifiers.copy;
    const auto first = sources.tensors.begin() + static_cast<std::ptrdiff_t>(alike.first);
    check_values(out, tensor(*first), dtype, rule);
    out.target = leaf(name, dtype, resolved.target_layout.shape, resolved.axes, resolved.stacked,
                      rule.pointer);
    out.loops = alike.loops;
    out.map = map_of(resolved.source_layout, resolved.target_layout);
    out.map.dst_base += alike.offset;
    out.sources.assign(first, first + static_cast<std::ptrdiff_t>(alike.count));
    model_.transfers.push_back(std::move(out));
  }

  // Notes dtypes that config.json decided.
  void note_mixed() {
    std::size_t mixed = 0;
    const StoredDTypes* first = nullptr;
    for (const auto& [target, stored] : stored_) {
      if (stored.is_by_config() && mixed++ == 0) first = &stored;
    }
    if (mixed == 0) return;
    model_.notes.push_back(fmt::format(
        "{} of several dtypes {} written in the dtype of config.json, {} of {}",
        mixed == 1 ? "1 stack" : fmt::format("{} stacks", mixed), mixed == 1 ? "is" : "are",
        mixed == 1 ? "that" : "first that", first->tensors_text()));
  }

  [[noreturn]] static void fail_partly(const std::string& target, const std::string& name) {
    throw Error(ErrorCode::usage,
                fmt::format("the rules cover only part of leaf {}", quote(target)))
        .in_tensor(name)
        .hint(
            "--include and --exclude must keep all of its source tensors or none; for fewer "
            "layers, pass --num-layers");
  }

  // Empty if the leaf is left out, or if a rule with a rest finds none of its tensors.
  std::vector<std::uint32_t> find_sources(const ResolvedRule& resolved) {
    std::vector<std::uint32_t> out;
    out.reserve(resolved.sources.size());
    const std::string* excluded = nullptr;
    for (const std::string& name : resolved.sources) {
      const auto found = codes_.find(name);
      if (!found) continue;
      if (builder_.excluded(*found)) {
        excluded = &name;
      } else {
        out.push_back(*found);
      }
    }
    if (excluded != nullptr) {
      if (!out.empty()) fail_partly(resolved.target, *excluded);
      left_out_.emplace(resolved.target, *excluded);
    }
    return out;
  }

  void check_source(const DecodeRule* decoder, const TensorInfo& other,
                    const ResolvedRule& resolved) const {
    const Rule& rule = *resolved.rule;
    const Shape& shape = resolved.source_layout.shape;
    if (decoder != nullptr && codes_.holds(*decoder, other, shape)) return;
    check_shape(builder_.catalog(), other, rule.source_pattern, shape, bindings_, rule.pointer);
    if (decoder == nullptr) return;
    throw Error(
        ErrorCode::bad_input,
        fmt::format("expected {} packed codes of shape {}, found {} {}", to_string(decoder->kind),
                    to_string(shape), safetensors_name(other.dtype), to_string(other.shape)))
        .in_tensor(other.name)
        .in_file(builder_.catalog().file_name(other))
        .by_rule(rule.pointer);
  }

  // Refuses a leaf whose values can't be computed.
  void check_values(const Transfer& out, const TensorInfo& first, DType dtype,
                    const Rule& rule) const {
    if (out.decode && builder_.options().keep_dtype) {
      const MappingOptions& options = builder_.options();
      const std::string loader = loader_name(options.scheme, options.options);
      throw Error(
          ErrorCode::unsupported,
          fmt::format("the tensor is quantized ({} with scales), and {} has no place for "
                      "its scales",
                      safetensors_name(first.dtype), loader.empty() ? "this scheme" : loader))
          .in_tensor(first.name)
          .by_rule(rule.pointer)
          .hint("pass --dtype bf16 or --dtype f32 to decode it");
    }
    const DType from = out.decode ? DType::f32 : first.dtype;
    const bool same = !out.decode && out.value.empty() && dtype == first.dtype;
    if (same || can_apply_value(out.value, from, dtype)) return;
    if (is_float(from) && size_bits(from) <= 8) {
      throw unknown_scales(first, builder_.catalog())
          .by_rule(rule.pointer)
          .hint(is_named_as_scale(first.name)
                    ? std::string("it looks like scales for codes of a form that hfshard doesn't "
                                  "know; pass --scheme hf to keep both")
                    : fmt::format("scales must be next to the codes, such as {}; pass --scheme hf "
                                  "to keep the codes",
                                  quote(first.name + "_scale")));
    }
    throw Error(ErrorCode::unsupported,
                fmt::format("hfshard can't compute values of dtype {} as {}",
                            to_string(first.dtype), to_string(dtype)))
        .in_tensor(first.name)
        .by_rule(rule.pointer)
        .hint(kCastHint);
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
      if (!takes_rest_) {  // a dialect's other leaves have no axes
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
    if (const std::string* glob = accepted_loss(builder_.options(), info.name)) {
      out.rule = builder_.rule(kDropFlag);
      out.why = accepted_why(*glob);
    } else if (!same_as.empty()) {
      out.same_as = twin(rule, info, same_as);
    }
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
        .by_rule(rule.pointer)
        .hint(drop_hint(builder_.options(), {info.name}));
  }

  const MappingTable& table_;
  const Bindings& bindings_;
  ModelBuilder& builder_;
  CompiledModel& model_;
  Codes codes_;
  bool takes_rest_;
  bool coded_ = false;  // a rule's tensor is coded
  std::vector<RuleSources> sources_;
  std::map<std::string, StoredDTypes> stored_;  // by leaf
  std::unordered_map<std::string, std::uint32_t> leaves_;
  std::unordered_map<std::string, std::string> left_out_;  // leaf -> one of its excluded sources
  std::vector<MissingTensor> missing_;
};

}  // namespace

bool is_of_untied(const MappingTable& table, const Rule& rule) {
  if (!rule.modifiers.when || rule.modifiers.copy) return false;
  const std::vector<std::string> keys = inputs_of(table, *rule.modifiers.when).keys;
  return std::ranges::binary_search(keys, kTied);
}

void compile_rules(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                   const ResolvedModel& resolved, ModelBuilder& builder) {
  RuleCompiler compiler(table, scheme, bindings, builder);
  compiler.match_names(resolved);
  compiler.leave_out_scales(resolved);
  check_all_used(table, scheme, bindings, builder, compiler.missing());
  for (const ResolvedRule& rule : resolved.rules) compiler.look_at(rule);
  compiler.transfer();
  compiler.check_left_out();
  for (const ResolvedDrop& drop : resolved.drops) compiler.drop(drop);
  for (const ResolvedFill& fill : resolved.fills) compiler.fill(fill);
}

}  // namespace hfshard
