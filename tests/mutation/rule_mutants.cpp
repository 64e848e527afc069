// Mutates rules, fills and drops: their patterns, names and modifiers, and pairs of them.

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "mutation/collector.h"
#include "mutation/pattern_text.h"

namespace hfshard::mutation {
namespace {

constexpr std::string_view kGate = "wi_0";
constexpr std::string_view kUp = "wi_1";

// Returns every dim that a rule of the list uses, sorted.
std::vector<std::string> dims_of_list(const Json& list) {
  std::set<std::string> out;
  for (const Json& rule : list.as_array()) {
    for (const Json& part : rule.as_array()) {
      if (!part.is_string()) continue;
      const SideText side = parse_side(part.as_string());
      for (const AxisText& dim : dims_of(side)) out.emplace(side.at(dim.core));
    }
  }
  return {out.begin(), out.end()};
}

class RuleMutants {
 public:
  RuleMutants(Collector& out, Path rule, RuleForm form, const std::vector<std::string>& dims)
      : out_(out), rule_(std::move(rule)), form_(form), dims_(dims) {
    const Json::Array& parts = value_at(out_.family(), rule_).as_array();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].is_string()) sides_.emplace_back(i, parse_side(parts[i].as_string()));
      if (parts[i].is_object()) modifiers_ = &parts[i];
    }
    modifiers_at_ = below(rule_, form_ == RuleForm::drop ? 1 : 2);
    if (const Json* loops = modifier("for")) {
      for (const auto& [name, range] : loops->as_object())
        loops_.push_back(parse_loop(name, range));
    }
  }

  void run() {
    out_.remove(Kind::drop_rule, rule_, rule_);
    for (const auto& [index, side] : sides_) {
      axes(side, below(rule_, index), index == 0 && form_ == RuleForm::transfer);
      windows(side, below(rule_, index));
      names(side, below(rule_, index));
    }
    if (form_ == RuleForm::transfer) wrong_dims();
    for (const LoopText& loop : loops_)
      add_loop_mutants(out_, rule_, below(below(modifiers_at_, "for"), loop.name), loop);
    condition();
    if (modifier("scan_axis") != nullptr)
      out_.remove(Kind::stack_index, rule_, below(modifiers_at_, "scan_axis"));
    if (form_ != RuleForm::drop) floors();
    if (form_ == RuleForm::transfer) scales();
    if (form_ == RuleForm::fill) fill();
  }

 private:
  const Json* modifier(std::string_view key) const {
    return modifiers_ == nullptr ? nullptr : modifiers_->find(key);
  }

  // Adds or replaces a modifier.
  void set_modifier(Kind kind, const std::string& key, Json value) {
    Json all = modifiers_ == nullptr ? Json(Json::Object{}) : *modifiers_;
    all[key] = std::move(value);
    out_.set(kind, rule_, modifiers_at_, std::move(all));
  }

  void axes(const SideText& side, const Path& at, bool source) {
    for (const std::vector<AxisText>& list : lists_of(side)) {
      const bool top = list.size() == side.axes.size() && list.front().all == side.axes.front().all;
      for (std::size_t i = 0; i < list.size(); ++i) {
        for (std::size_t j = i + 1; j < list.size(); ++j) {
          const bool last = source && top && j + 1 == list.size() && i + 1 == j;
          out_.set(last ? Kind::transpose : Kind::swap_dims, rule_, at,
                   exchanged(side.text, list[i].all, list[j].all));
        }
      }
    }
    const std::vector<AxisText> dims = dims_of(side);
    for (std::size_t i = 0; i < dims.size(); ++i) {
      for (std::size_t j = i + 1; j < dims.size(); ++j)
        out_.set(Kind::swap_dims, rule_, at, exchanged(side.text, dims[i].core, dims[j].core));
    }
  }

  void windows(const SideText& side, const Path& at) {
    for (const AxisText& axis : nodes_of(side)) {
      if (is_fixed(side, axis)) fixed(side, axis, at);
      if (!axis.is_window()) continue;
      const std::string offset(side.at(axis.offset));
      const auto set = [&](const Span& span, const std::string& by) {
        out_.set(Kind::window, rule_, at, replaced(side.text, span, by));
      };
      set(axis.offset, fmt::format("({}+1)", offset));
      set(axis.total, fmt::format("({}+1)", side.at(axis.total)));
      if (offset != "0") set(axis.offset, "0");
      if (offset != "0") set(axis.offset, fmt::format("({}-1)", offset));
    }
  }

  // `1/2` becomes `0/2`; `0/1` is removed.
  void fixed(const SideText& side, const AxisText& axis, const Path& at) {
    const std::string text(side.at(axis.core));
    const std::size_t slash = text.find('/');
    const std::uint64_t index = std::stoull(text.substr(0, slash));
    const std::uint64_t extent = std::stoull(text.substr(slash + 1));
    if (extent > 1) {
      out_.set(Kind::index, rule_, at,
               replaced(side.text, axis.core, fmt::format("{}/{}", (index + 1) % extent, extent)));
      return;
    }
    Span span = axis.all;
    if (side.text[span.end] == ' ') {
      ++span.end;
    } else if (side.text[span.begin - 1] == ' ') {
      --span.begin;
    }
    out_.set(Kind::index, rule_, at, replaced(side.text, span, ""));
  }

  void names(const SideText& side, const Path& at) {
    add_name_mutants(out_, rule_, at, side.text);
    if (form_ == RuleForm::drop) return;  // order doesn't matter for counting loops
    for (const Span& span : braces_of(side.at(side.name))) {
      for (const LoopText& loop : loops_)
        add_order_mutants(out_, Kind::experts, rule_, at, side.text, span.begin, span.end, loop);
    }
  }

  // Uses another dim of the list, in the source only and on both sides.
  void wrong_dims() {
    for (const AxisText& axis : dims_of(sides_[0].second)) {
      const std::string dim(sides_[0].second.at(axis.core));
      const auto here = std::ranges::find(dims_, dim);
      if (dims_.size() < 2) return;
      const std::string& other = std::next(here) == dims_.end() ? dims_.front() : *std::next(here);
      std::vector<Edit> edits;
      for (const auto& [index, side] : sides_) {
        std::string text = side.text;
        for (const AxisText& same : dims_of(side)) {
          if (side.at(same.core) == dim) text = replaced(side.text, same.core, other);
        }
        edits.push_back({below(rule_, index), Json(text)});
        out_.add(Kind::wrong_dim, rule_, edits);
      }
    }
  }

  void condition() {
    const Json* when = modifier("when");
    if (when == nullptr) return;
    set_modifier(Kind::condition, "when",
                 fmt::format("!({})", when->is_string() ? when->as_string() : dump_json(*when)));
    out_.remove(Kind::condition, rule_, below(modifiers_at_, "when"));
  }

  void floors() {
    const Json* dtype = modifier("dtype");
    if (dtype == nullptr && form_ == RuleForm::fill) return;
    if (dtype != nullptr) out_.remove(Kind::dtype_floor, rule_, below(modifiers_at_, "dtype"));
    const bool f32 = dtype != nullptr && dtype->as_string() == "f32";
    set_modifier(Kind::dtype_floor, "dtype", f32 ? "bf16" : "f32");
  }

  static Json constant(const std::string& expression, const std::string& dtype) {
    return Json(Json::Object{{"expr", expression}, {"const_dtype", dtype}});
  }

  void scales() {
    const Json* value = modifier("value");
    if (value == nullptr) {
      set_modifier(Kind::scale, "value", Json(Json::Object{{"mul", constant("2", "f32")}}));
      return;
    }
    out_.remove(Kind::scale, rule_, below(modifiers_at_, "value"));
    for (const auto& [part, facts] : value->as_object()) {
      const Json& expr = facts.at("expr");
      const std::string text = expr.is_string() ? expr.as_string() : dump_json(expr);
      const std::string dtype = facts.at("const_dtype").as_string();
      const Path at = below(below(modifiers_at_, "value"), part);
      out_.set(Kind::scale, rule_, at, constant(fmt::format("({}) * 2", text), dtype));
      out_.set(Kind::scale, rule_, at, constant(fmt::format("-({})", text), dtype));
      out_.set(Kind::scale, rule_, at, constant(text, dtype == "f32" ? "bf16" : "f32"));
    }
  }

  void fill() {
    const Path at = below(rule_, 0);
    const Json& scalar = value_at(out_.family(), at);
    out_.set(Kind::scale, rule_, at, scalar == Json(1) ? Json(0) : Json(1));
  }

  Collector& out_;
  Path rule_;
  RuleForm form_;
  const std::vector<std::string>& dims_;
  std::vector<std::pair<std::size_t, SideText>> sides_;
  const Json* modifiers_ = nullptr;
  Path modifiers_at_;
  std::vector<LoopText> loops_;
};

// Exchanges a part of two rules' texts.
class PairMutants {
 public:
  PairMutants(Collector& out, const Path& list, RuleForm form)
      : out_(out), list_(list), form_(form) {}

  void run(std::size_t a, std::size_t b) {
    if (form_ == RuleForm::transfer) gate_and_up(a, b);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      if ((form_ == RuleForm::fill && side == 0) || (form_ == RuleForm::drop && side == 1))
        continue;
      const SideText left = parse_side(text(a, side));
      const SideText right = parse_side(text(b, side));
      const bool alike = left.at(left.pattern) == right.at(right.pattern);
      if (!alike && b != a + 1) continue;
      exchange(Kind::swap_names, a, b, side, replaced(left.text, left.name, right.at(right.name)),
               replaced(right.text, right.name, left.at(left.name)));
    }
  }

 private:
  // Exchanges the sources of two leaves whose names differ in wi_0 and wi_1.
  void gate_and_up(std::size_t a, std::size_t b) {
    const std::string gate = text(a, 1);
    const std::size_t at = gate.find(kGate);
    if (at == std::string::npos) return;
    if (replaced(gate, {at, at + kGate.size()}, kUp) != text(b, 1)) return;
    exchange(Kind::gate_up, a, b, 0, text(b, 0), text(a, 0));
  }

  const std::string& text(std::size_t rule, std::size_t side) const {
    return value_at(out_.family(), below(below(list_, rule), side)).as_string();
  }

  void exchange(Kind kind, std::size_t a, std::size_t b, std::size_t side, const std::string& of_a,
                const std::string& of_b) {
    out_.add(
        kind, below(list_, a),
        {{below(below(list_, a), side), Json(of_a)}, {below(below(list_, b), side), Json(of_b)}});
  }

  Collector& out_;
  const Path& list_;
  RuleForm form_;
};

}  // namespace

void add_list_mutants(Collector& out, const Path& list, RuleForm form) {
  const Json& rules = value_at(out.family(), list);
  const std::vector<std::string> dims = dims_of_list(rules);
  const std::size_t count = rules.as_array().size();
  PairMutants pairs(out, list, form);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) pairs.run(a, b);
  }
  for (std::size_t i = 0; i < count; ++i) RuleMutants(out, below(list, i), form, dims).run();
}

}  // namespace hfshard::mutation
