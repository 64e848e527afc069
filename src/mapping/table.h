#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/expr.h"
#include "mapping/family.h"
#include "mapping/name_template.h"
#include "mapping/pattern.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A constant of a value rule: computed in f64, rounded to `const_dtype`, used in f32.
struct ValueConstant {
  Expr expr;
  DType const_dtype = DType::f32;
};

/// x -> x * mul + add.
struct ValueRule {
  std::optional<ValueConstant> mul;
  std::optional<ValueConstant> add;
};

/// `name` runs over begin <= i < end.
struct LoopRule {
  std::string name;
  Expr begin;
  Expr end;
};

/// Logical axis of a dim; an empty name says that the dim has none.
using AxisNames = std::map<std::string, std::string, std::less<>>;

/// What the modifiers of a rule, a fill or a drop may say.
struct RuleModifiers {
  std::optional<Expr> when;
  std::vector<LoopRule> loops;
  AxisNames axes;
  ValueRule value;
  std::optional<DType> dtype;  ///< a floor: narrower floats are widened to it, integers become it
  std::optional<DType> stays;  ///< a source of this dtype is not narrowed by --dtype
  std::optional<std::size_t> scan_axis;  ///< where stack axes go, instead of the scheme's
  std::vector<std::string> repeat;       ///< dims that only the target has
  bool copy = false;
};

/// One rule: a source shape and a target shape over the same dims. Names exclude the prefixes of
/// the layer group.
struct Rule {
  std::string pointer;  ///< `mappings/qwen3.json#/schemes/maxtext/layer/rules/4`
  NameTemplate source;
  Pattern source_pattern;
  NameTemplate target;
  Pattern target_pattern;
  RuleModifiers modifiers;
};

/// A constant in a region of a leaf.
struct FillRule {
  std::string pointer;
  double scalar = 0;
  NameTemplate target;
  Pattern pattern;
  RuleModifiers modifiers;
};

/// A region of source tensors that goes nowhere. The name may hold `*`.
struct DropRule {
  std::string pointer;
  NameTemplate source;
  Pattern pattern;
  RuleModifiers modifiers;
  std::string why;
  std::optional<NameTemplate> same_as;
};

/// A condition on the config, and what to say where it does not hold.
struct Requirement {
  Expr expr;
  std::string why;
};

/// Names that begin with `from` begin with `to` instead, where `when` is true.
struct Renaming {
  std::string pointer;
  NameTemplate from;
  NameTemplate to;
  std::optional<Expr> when;
};

/// Layers (or blocks) that share rules: the stack axes are inserted at scan_axis when layers are
/// stacked.
struct LayerGroup {
  std::string pointer;
  std::string name;
  std::vector<LoopRule> loops;
  NameTemplate hf;                       ///< prefix of source names
  std::optional<NameTemplate> stacked;   ///< prefix of leaves when stacked
  std::vector<Expr> stack_index;         ///< position along each stack axis
  std::optional<NameTemplate> separate;  ///< prefix of leaves when not
  std::vector<Requirement> require;
  std::vector<Rule> rules;
  std::vector<FillRule> fills;
  std::vector<Renaming> renames;  ///< of names behind `hf`, to names behind `separate`
  std::vector<std::string> sources;
};

/// A text, with the condition under which it holds.
struct Conditional {
  Expr when;
  std::string text;
};

/// An option that a loader must be given: `attention_bias=true`, or with a value of the model's.
struct LoadOption {
  std::string name;
  std::string text;           ///< the value as it stands
  std::optional<Expr> value;  ///< or what it is worth
};

/// A note, and with what to load where it holds.
struct Note : Conditional {
  std::vector<LoadOption> load;
};

/// Which of the family's sizes a model has: those for which the expressions under `by` are
/// worth the same.
struct ModelNames {
  std::vector<Expr> by;
  std::optional<Expr> when;  ///< no size fits where this is false
  /// Model name -> options under which its size is read (its name stands for more than its config).
  std::map<std::string, std::map<std::string, std::string>, std::less<>> options;
  std::vector<std::string> without;  ///< sizes that have no name in this scheme
  std::vector<Conditional> more;     ///< names beside the sizes
};

/// One target tree of a family.
struct Scheme {
  std::string name;
  std::string pointer;
  std::vector<std::string> root;  ///< keys above the names: params, params
  /// Name of the scheme whose dialect this is: it takes every tensor that no rule has. A rule whose
  /// tensors are all missing is none. Empty: every tensor has a rule.
  std::string rest;
  std::vector<Renaming> renames;  ///< of leaves; the first that fits is the only one
  std::size_t scan_axis = 1;
  bool axes_by_place = false;  ///< a dim that has no other name is dim_0, dim_1, ...
  AxisNames axes;
  Json axis_rules;                      ///< default logical axis rules; null: none
  std::vector<std::string> axis_names;  ///< logical axes that there are, sorted; empty: any
  std::vector<Requirement> require;
  std::vector<Note> notes;
  ModelNames model_names;
  std::vector<Rule> global;
  std::vector<FillRule> fills;
  std::vector<DropRule> drops;
  std::vector<LayerGroup> groups;
  std::vector<std::string> sources;

  /// Whether layers can be stacked at all.
  bool stacks() const noexcept;
};

/// How a coded tensor is stored: `block` and `tensor` are 8-bit floats with a scale per block or
/// per tensor, `mx` is packed E2M1, `int4` packed offset-8 integers.
enum class DecodeKind : std::uint8_t { block, tensor, mx, int4 };

/// Whether several codes share a byte or a word.
constexpr bool is_packed(DecodeKind kind) noexcept {
  return kind == DecodeKind::mx || kind == DecodeKind::int4;
}

/// Which tensors are stored in a coded form, and where their scales are.
struct DecodeRule {
  std::string pointer;
  DecodeKind kind = DecodeKind::block;
  std::optional<Expr> when;
  std::optional<std::string> name;  ///< glob on tensor names
  std::vector<DType> dtypes;        ///< as stored; empty: any
  std::string scale;  ///< name of the scale tensor; {name} is the tensor's, {stem} its beginning up
                      ///< to what the glob's end matched
  std::vector<Expr> block;  ///< rows and columns of a block; empty: what the shapes say

  /// Whether it is for tensors of this name that are stored so (nothing: in some dtype), with this
  /// config.
  bool takes(std::string_view tensor, std::optional<DType> stored, const Scope& scope) const;
  std::string scale_name(std::string_view tensor) const;
};

/// One family file, checked: pure data. Every source tensor is matched exactly once or listed under
/// drop.
struct MappingTable {
  std::string family;
  std::string path;  ///< "mappings/qwen3.json"
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> options;         ///< names of option.* that its expressions use, sorted
  std::vector<std::string> config_at{"."};  ///< where config paths are looked up, in turn
  std::map<std::string, Expr, std::less<>> dims;
  std::vector<DropRule> drops;
  std::vector<DecodeRule> decodes;
  std::vector<Scheme> schemes;
  std::vector<Scheme> dialects;  ///< those with a `rest`
  std::vector<std::string> sources;
  Json example;
  /// Model name -> the facts of its config.json that the rules read.
  std::map<std::string, Json, std::less<>> sizes;

  /// The scheme of this name, or nullptr.
  const Scheme* scheme(std::string_view name) const noexcept;
  /// The dialect of this name, or nullptr.
  const Scheme* dialect(std::string_view name) const noexcept;
  /// MaxText's, or the first one where the family has none.
  const Scheme& main_scheme() const noexcept;
  /// The scheme of this name, or where it is empty the main one. Throws: not_found.
  const Scheme& scheme_or_main(std::string_view name) const;
};

/// Name in a family's `decode`: "block".
std::string_view to_string(DecodeKind kind) noexcept;

/// Reads a family file, with the parts that it uses. Throws: bad_input with the JSON pointer
/// (unknown key, wrong type, pattern, expression, a dim that only one side has, an axis without a
/// logical name).
MappingTable load_table(const FamilyFile& file);

/// Logical axis of one axis of a target pattern: of its first dim that has an entry, the rule's
/// before the scheme's. Nothing if no dim has one; a fixed index has none ("").
std::optional<std::string> axis_name(const PatternNode& node, const AxisNames& rule,
                                     const AxisNames& scheme);

/// Whether a leaf with this name and rank has the norm axis by default: a 1-d `.scale`.
bool is_norm_scale(std::string_view target, const Pattern& pattern) noexcept;

}  // namespace hfshard
