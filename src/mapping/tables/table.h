#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/language/expr.h"
#include "mapping/language/name_template.h"
#include "mapping/language/pattern.h"
#include "mapping/tables/decode_rule.h"
#include "mapping/tables/family.h"

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

/// A loop with begin <= i < end.
struct LoopRule {
  std::string name;
  Expr begin;
  Expr end;
};

/// The logical axis of a dim. An empty name means no axis.
using AxisNames = std::map<std::string, std::string, std::less<>>;

/// The modifiers of a rule, a fill or a drop.
struct RuleModifiers {
  std::optional<Expr> when;
  std::vector<LoopRule> loops;
  AxisNames axes;
  ValueRule value;
  /// A minimum: narrower floats are widened to it, and integers are converted to it.
  std::optional<DType> dtype;
  std::optional<DType> stays;            ///< --dtype doesn't narrow this source dtype
  std::optional<DType> integers;         ///< dtype in the model's files, whatever config.json says
  std::optional<std::size_t> scan_axis;  ///< of stack axes, overrides the scheme's
  /// The last key above the name, instead of that of the scheme's root: a collection of variables
  /// that aren't parameters.
  std::optional<NameTemplate> collection;
  std::vector<std::string> repeat;  ///< dims that only the target has
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

/// A region of source tensors that isn't written. The name can have `*`.
struct DropRule {
  std::string pointer;
  NameTemplate source;
  Pattern pattern;
  RuleModifiers modifiers;
  std::string why;
  std::optional<NameTemplate> same_as;
};

/// A condition on the config, and the error if it doesn't hold.
struct Requirement {
  Expr expr;
  std::string why;
};

/// Replaces the prefix `from` of names with `to`, if `when` is true.
struct Renaming {
  std::string pointer;
  NameTemplate from;
  NameTemplate to;
  std::optional<Expr> when;
};

/// Layers (or blocks) that share rules. For stacked layers, the stack axes are inserted at
/// scan_axis.
struct LayerGroup {
  std::string pointer;
  std::string name;
  std::vector<LoopRule> loops;
  NameTemplate hf;                       ///< prefix of source names
  std::optional<NameTemplate> stacked;   ///< prefix of leaves if stacked
  std::vector<Expr> stack_index;         ///< position along each stack axis
  std::optional<NameTemplate> separate;  ///< prefix of leaves if not stacked
  std::vector<Requirement> require;
  std::vector<Rule> rules;
  std::vector<FillRule> fills;
  std::vector<Renaming> renames;  ///< from names after `hf`, to `separate`
  std::vector<std::string> sources;
};

/// A text with the condition for it.
struct Conditional {
  Expr when;
  std::string text;
};

/// An option of a loader, and the value that the model needs: `vocab_size`, Vm. An absent value
/// isn't passed.
struct Setting {
  std::string name;
  Expr value;
};

/// A computation of the loader that differs from config.json, if `when` is true. The text can have
/// expressions in braces.
struct Warning {
  Expr when;
  NameTemplate text;
};

/// A glob for the names of a loader's models, and the condition for using them. If several globs
/// match, the first one counts.
struct NameRule {
  std::string glob;
  Expr when;
};

/// One target tree of a family.
struct Scheme {
  std::string name;
  std::string pointer;
  std::vector<std::string> root;  ///< keys above the names: params, params
  /// Name of the scheme that this is a dialect of. A dialect takes every tensor without a rule, and
  /// skips rules whose tensors are all missing. If empty, every tensor must have a rule.
  std::string rest;
  std::vector<Renaming> renames;  ///< of leaves; the first match counts
  std::size_t scan_axis = 1;
  bool axes_by_place = false;  ///< unnamed dims are dim_0, dim_1, ...
  AxisNames axes;
  Json axis_rules;                      ///< default rules, or null
  std::vector<std::string> axis_names;  ///< known ones, sorted; empty: any
  std::vector<Requirement> require;
  std::vector<Conditional> notes;
  std::vector<Warning> warnings;
  std::vector<Setting> settings;  ///< sorted by name
  std::vector<NameRule> model_names;
  /// Layouts, "stacked" and "separate", whose tree differs between releases of the loader.
  std::vector<std::string> by_release;
  /// Options of the family with their values, each of which makes another tree.
  std::map<std::string, std::vector<std::string>> forms;
  /// A glob for scales that the loader has a place for, so codes can stay codes (kept_codes). Empty
  /// if it has no such place.
  std::string keeps_codes;
  std::vector<Rule> global;
  std::vector<FillRule> fills;
  std::vector<DropRule> drops;
  std::vector<LayerGroup> groups;
  std::vector<std::string> sources;

  /// Returns whether layers can be stacked at all.
  bool stacks() const noexcept;
  bool differs_by_release(bool stacked) const;
  /// Returns the keys above a name, ending in a dot. A collection replaces the last one.
  std::string head(const std::string& collection = {}) const;
};

/// A checked family file: pure data. Every source tensor matches exactly one rule or drop.
struct MappingTable {
  std::string family;
  std::string path;  ///< "mappings/qwen3.json"
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
  std::vector<std::string> options;         ///< in its expressions, sorted
  std::vector<std::string> config_at{"."};  ///< places for config paths, in order
  std::map<std::string, Expr, std::less<>> dims;
  std::vector<DropRule> drops;
  std::vector<DecodeRule> decodes;
  std::vector<Scheme> schemes;
  std::vector<Scheme> dialects;  ///< with a `rest`
  std::vector<std::string> sources;
  Json example;
  /// Model name -> the facts of its config.json that the rules read.
  std::map<std::string, Json, std::less<>> sizes;

  /// Returns the scheme with this name, or nullptr.
  const Scheme* scheme(std::string_view name) const noexcept;
  /// Returns the dialect with this name, or nullptr.
  const Scheme* dialect(std::string_view name) const noexcept;
  /// Returns MaxText's scheme, or the first one if the family lacks it.
  const Scheme& main_scheme() const noexcept;
  /// Returns the scheme with this name, or the main one if it is empty. Throws: not_found.
  const Scheme& scheme_or_main(std::string_view name) const;
};

/// Reads a family file, with the parts that it uses. Throws: bad_input with the JSON pointer
/// (unknown key, wrong type, pattern, expression, a dim that only one side has, an axis without a
/// logical name).
MappingTable load_table(const FamilyFile& file);

/// Returns the logical axis of one axis of a target pattern: that of its first dim with an entry.
/// The rule's entries come before the scheme's. Empty if no dim has one; "" for a fixed index.
std::optional<std::string> axis_name(const PatternNode& node, const AxisNames& rule,
                                     const AxisNames& scheme);

/// Returns whether a leaf with this name and rank has the norm axis by default: a 1-d `.scale`.
bool is_norm_scale(std::string_view target, const Pattern& pattern) noexcept;

}  // namespace hfshard
