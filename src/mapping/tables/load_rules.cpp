#include "mapping/tables/load_rules.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Splits `name [pattern]` into its two parts.
std::pair<std::string_view, std::string_view> split_side(const JsonAt& at) {
  const std::string_view text = at.text();
  const std::size_t bracket = text.find(" [");
  if (bracket == std::string_view::npos || bracket == 0) {
    at.fail(fmt::format("{} must have the form `name [pattern]`", quote(text)));
  }
  return {text.substr(0, bracket), text.substr(bracket + 1)};
}

DType read_dtype(const JsonAt& at) {
  const auto dtype = dtype_from_string(at.text());
  if (!dtype) at.fail(fmt::format("{} isn't a dtype", quote(at.text())));
  return *dtype;
}

ValueConstant read_constant(const JsonAt& at) {
  at.check_keys(Block::constant);
  ValueConstant out{at.at("expr").expr(), read_dtype(at.at("const_dtype"))};
  if (out.const_dtype != DType::f32 && out.const_dtype != DType::bf16) {
    at.at("const_dtype").fail("a constant must be rounded to f32 or bf16");
  }
  return out;
}

ValueRule read_value(const JsonAt& at) {
  at.check_keys(Block::value);
  ValueRule out;
  if (at.has("mul")) out.mul = read_constant(at.at("mul"));
  if (at.has("add")) out.add = read_constant(at.at("add"));
  if (!out.mul && !out.add) at.fail("a value rule needs mul or add");
  return out;
}

NameTemplate read_collection(const JsonAt& at, const RuleContext& context) {
  if (context.scheme->root.empty()) at.fail("this scheme has no keys above its names");
  return {at.text(), at.pointer()};
}

RuleModifiers read_modifiers(const JsonAt& at, Block block, const RuleContext& context) {
  at.check_keys(block);
  RuleModifiers out;
  if (at.has("when")) out.when = at.at("when").expr();
  if (at.has("for")) out.loops = read_loops(at.at("for"));
  if (at.has("source")) static_cast<void>(at.at("source").texts());
  if (block == Block::drop_modifiers) return out;
  if (at.has("axes")) out.axes = read_axes(at.at("axes"), context.scheme->axis_names);
  if (at.has("dtype")) out.dtype = read_dtype(at.at("dtype"));
  if (at.has("collection")) out.collection = read_collection(at.at("collection"), context);
  if (block == Block::fill_modifiers) return out;
  if (at.has("value")) out.value = read_value(at.at("value"));
  if (at.has("stays")) out.stays = read_dtype(at.at("stays"));
  if (at.has("integers")) out.integers = read_dtype(at.at("integers"));
  if (at.has("scan_axis")) out.scan_axis = read_scan_axis(at.at("scan_axis"));
  if (at.has("repeat")) out.repeat = at.at("repeat").texts();
  if (at.has("copy")) out.copy = at.at("copy").boolean();
  return out;
}

// Checks of one rule against the dims and loops that it may use.
class RuleCheck {
 public:
  RuleCheck(const JsonAt& at, const RuleContext& context, const RuleModifiers& modifiers)
      : at_(at), context_(context), modifiers_(modifiers) {
    for (const LoopRule& loop : modifiers.loops) {
      if (is_group_loop(loop.name)) {
        at.fail(fmt::format("the layer group already has the loop {}", quote(loop.name)));
      }
    }
  }

  bool is_group_loop(std::string_view name) const {
    return context_.loops != nullptr &&
           std::ranges::any_of(*context_.loops, [&](const auto& l) { return l.name == name; });
  }

  bool is_rule_loop(std::string_view name) const {
    return std::ranges::any_of(modifiers_.loops, [&](const auto& l) { return l.name == name; });
  }

  // Every dim of the pattern must be known. With `loops`, a rule's loop can be one.
  void dims(const Pattern& pattern, bool loops) const {
    for (const std::string& dim : pattern.dims()) {
      if (is_group_loop(dim) || is_rule_loop(dim)) {
        if (loops && is_rule_loop(dim)) continue;
        at_.fail(fmt::format("loop {} can't be an axis of {}", quote(dim), quote(pattern.text)));
      }
      if (context_.table->dims.contains(dim)) continue;
      std::vector<std::string> known;
      for (const auto& [name, expr] : context_.table->dims) known.push_back(name);
      Error error(ErrorCode::bad_input, fmt::format("dim {} isn't declared", quote(dim)));
      throw error.by_rule(at_.pointer()).hint("dims are " + join(known, " "));
    }
  }

  // Checks that the two sides match.
  void sides(const Rule& rule) const {
    const std::vector<std::string> source = rule.source_pattern.dims();
    const std::vector<std::string> target = rule.target_pattern.dims();
    for (const std::string& dim : source) {
      if (!contains(target, dim)) only_on(dim, "source");
    }
    for (const std::string& dim : target) {
      const bool repeated = contains(modifiers_.repeat, dim);
      if (repeated == contains(source, dim)) {
        if (repeated)
          at_.fail(fmt::format("dim {} is repeated, but the source has it", quote(dim)));
        if (!is_rule_loop(dim)) only_on(dim, "target");
      }
    }
    for (const std::string& dim : modifiers_.repeat) {
      if (!contains(target, dim))
        at_.fail(fmt::format("repeated dim {} isn't in the target", quote(dim)));
    }
    loops(rule, target);
  }

  void axes(std::string_view name, const Pattern& pattern) const {
    const std::vector<std::string> dims = pattern.dims();
    for (const auto& [dim, axis] : modifiers_.axes) {
      if (!contains(dims, dim))
        at_.fail(fmt::format("axes names {}, which isn't a dim here", quote(dim)));
    }
    if (is_norm_scale(name, pattern) || context_.scheme->axes_by_place) return;
    for (const PatternNode& node : pattern.axes) {
      if (axis_name(node, modifiers_.axes, context_.scheme->axes)) continue;
      Error error(ErrorCode::bad_input,
                  fmt::format("axis {} lacks a logical name", quote(to_text(node))));
      throw error.by_rule(at_.pointer())
          .hint("add it under axes, with null if it has no logical name");
    }
  }

 private:
  [[noreturn]] void only_on(const std::string& dim, std::string_view side) const {
    at_.fail(fmt::format("dim {} is only on the {} side", quote(dim), side));
  }

  void loops(const Rule& rule, const std::vector<std::string>& target) const {
    for (const LoopRule& loop : modifiers_.loops) {
      if (!contains(rule.source.names(), loop.name)) {
        at_.fail(fmt::format("the source name lacks loop {}", quote(loop.name)));
      }
      const bool in_name = contains(rule.target.names(), loop.name);
      if (contains(target, loop.name) == in_name) {
        if (!in_name) only_on(loop.name, "source");
        at_.fail(
            fmt::format("the target has loop {} in its name and in its shape", quote(loop.name)));
      }
    }
    for (const std::string& name : rule.target.names()) {
      if (!is_rule_loop(name)) {
        at_.fail(fmt::format("{} in the target's name isn't a loop of this rule", quote(name)));
      }
    }
  }

  const JsonAt& at_;
  const RuleContext& context_;
  const RuleModifiers& modifiers_;
};

}  // namespace

std::size_t read_scan_axis(const JsonAt& at) {
  const std::int64_t axis = at.integer();
  if (axis < 0 || axis >= static_cast<std::int64_t>(Shape::kMaxRank))
    at.fail(fmt::format("scan_axis is {}; the largest is {}", axis, Shape::kMaxRank - 1));
  return static_cast<std::size_t>(axis);
}

std::vector<LoopRule> read_loops(const JsonAt& at) {
  std::vector<LoopRule> out;
  for (const std::string& name : at.keys()) {
    const JsonAt range = at.at(name);
    if (range.json().is_string()) {
      const std::string_view text = range.text();
      const std::size_t dots = text.find("..");
      if (dots != std::string_view::npos) {
        out.push_back({name, Expr(text.substr(0, dots), range.pointer()),
                       Expr(text.substr(dots + 2), range.pointer())});
        continue;
      }
    }
    out.push_back({name, Expr("0", range.pointer()), range.expr()});
  }
  if (out.empty()) at.fail("this must be a loop");
  return out;
}

AxisNames read_axes(const JsonAt& at, const std::vector<std::string>& known) {
  AxisNames out;
  for (const std::string& dim : at.keys()) {
    const JsonAt axis = at.at(dim);
    out[dim] = axis.json().is_null() ? std::string() : axis.text();
    if (out[dim].empty() || known.empty() || contains(known, out[dim])) continue;
    Error error(ErrorCode::bad_input,
                fmt::format("the axis rules have no logical axis {}", quote(out[dim])));
    const std::vector<std::string> near = near_names(out[dim], known);
    throw error.by_rule(axis.pointer())
        .hint(near.empty() ? "they have " + join(known, ", ")
                           : "did you mean " + join(near, " or ") + "?");
  }
  return out;
}

std::vector<Requirement> read_requirements(const JsonAt& at) {
  std::vector<Requirement> out;
  for (const JsonAt& pair : at.elements()) {
    if (pair.size() != 2) pair.fail("a requirement must be [condition, sentence]");
    out.push_back({pair.at(std::size_t{0}).expr(), pair.at(std::size_t{1}).text()});
  }
  return out;
}

Rule read_rule(const JsonAt& at, const RuleContext& context) {
  if (at.size() != 2 && at.size() != 3)
    at.fail("a rule must be [source, target] or [source, target, modifiers]");
  Rule out;
  out.pointer = at.pointer();
  const auto [source, source_pattern] = split_side(at.at(std::size_t{0}));
  const auto [target, target_pattern] = split_side(at.at(std::size_t{1}));
  out.source = NameTemplate(source, at.pointer());
  out.target = NameTemplate(target, at.pointer());
  out.source_pattern = parse_pattern(source_pattern, at.pointer());
  out.target_pattern = parse_pattern(target_pattern, at.pointer());
  if (out.source_pattern.whole || out.target_pattern.whole) at.fail("only drops can use [*]");
  if (at.size() == 3)
    out.modifiers = read_modifiers(at.at(std::size_t{2}), Block::rule_modifiers, context);
  const RuleCheck check(at, context, out.modifiers);
  check.dims(out.source_pattern, false);
  check.dims(out.target_pattern, true);
  check.sides(out);
  check.axes(target, out.target_pattern);
  return out;
}

FillRule read_fill(const JsonAt& at, const RuleContext& context) {
  if (at.size() != 2 && at.size() != 3)
    at.fail("a fill must be [number, target] or [number, target, modifiers]");
  FillRule out;
  out.pointer = at.pointer();
  out.scalar = at.at(std::size_t{0}).real();
  const auto [target, pattern] = split_side(at.at(std::size_t{1}));
  out.target = NameTemplate(target, at.pointer());
  out.pattern = parse_pattern(pattern, at.pointer());
  if (out.pattern.whole) at.fail("only drops can use [*]");
  if (at.size() == 3)
    out.modifiers = read_modifiers(at.at(std::size_t{2}), Block::fill_modifiers, context);
  const RuleCheck check(at, context, out.modifiers);
  check.dims(out.pattern, false);
  return out;
}

DropRule read_drop(const JsonAt& at, const RuleContext& context) {
  if (at.size() != 2) at.fail("a drop must be [source, modifiers]");
  DropRule out;
  out.pointer = at.pointer();
  const auto [source, pattern] = split_side(at.at(std::size_t{0}));
  out.source = NameTemplate(source, at.pointer());
  out.pattern = parse_pattern(pattern, at.pointer());
  const JsonAt modifiers = at.at(std::size_t{1});
  out.modifiers = read_modifiers(modifiers, Block::drop_modifiers, context);
  out.why = modifiers.at("why").text();
  if (modifiers.has("same_as")) {
    out.same_as = NameTemplate(modifiers.at("same_as").text(), modifiers.pointer());
  }
  if (!out.pattern.whole) RuleCheck(at, context, out.modifiers).dims(out.pattern, false);
  return out;
}

}  // namespace hfshard
