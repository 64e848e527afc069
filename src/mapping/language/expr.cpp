#include "mapping/language/expr.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/language/expr_tree.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns whether an expression is only a key of config.json.
bool is_key(std::string_view text) {
  return !text.starts_with("option.") && std::ranges::all_of(text, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.';
  });
}

class Evaluator {
 public:
  Evaluator(const ExprTree& tree, const Scope& scope, bool real)
      : tree_(tree), scope_(scope), real_(real) {}

  ExprValue root() const { return value(static_cast<std::uint32_t>(tree_.nodes.size() - 1)); }

  bool truth(const ExprValue& of) const {
    if (const auto* flag = std::get_if<bool>(&of)) return *flag;
    if (const auto* number = std::get_if<std::int64_t>(&of)) return *number != 0;
    if (const auto* absent = std::get_if<Absent>(&of)) {
      if (absent->option) return false;
      fail(absent->message);
    }
    fail_kind("true or false", of);
  }

  std::int64_t integer(const ExprValue& of) const {
    if (const auto* number = std::get_if<std::int64_t>(&of)) return *number;
    if (const auto* absent = std::get_if<Absent>(&of)) fail(absent->message);
    fail_kind("an integer", of);
  }

  std::string name_part(const ExprValue& of) const {
    if (const auto* text = std::get_if<std::string>(&of)) return *text;
    if (const auto* number = std::get_if<double>(&of)) return fmt::format("{}", *number);
    return std::to_string(integer(of));
  }

  double real(const ExprValue& of) const {
    if (const auto* number = std::get_if<double>(&of)) return *number;
    return static_cast<double>(integer(of));
  }

 private:
  std::string text() const { return quote(scope_.shown(tree_.text)); }

  [[noreturn]] void fail_kind(std::string_view wanted, const ExprValue& of) const {
    const std::string shown = scope_.shown(tree_.text);
    fail(is_key(shown) ? fmt::format("{} in config.json is {}, and it must be {}", shown,
                                     shown_value(of), wanted)
                       : fmt::format("expression {} needs {}, not {}", quote(shown), wanted,
                                     shown_value(of)));
  }

  [[noreturn]] void fail(const std::string& sentence) const {
    throw Error(ErrorCode::bad_input, sentence).by_rule(tree_.pointer);
  }

  ExprValue value(std::uint32_t index) const {
    const ExprNode& node = tree_.nodes[index];
    switch (node.op) {
      case ExprOp::number:
        return node.number;
      case ExprOp::real:
        return node.real;
      case ExprOp::text:
        return node.text;
      case ExprOp::boolean:
        return node.number != 0;
      case ExprOp::absent:
        return Absent{fmt::format("expression {} is empty", quote(tree_.text)), false};
      case ExprOp::name:
        return scope_.lookup(node.text);
      case ExprOp::exists:
        return scope_.tensor_exists(node.text);
      case ExprOp::extent:
        return scope_.tensor_extent(node.text, static_cast<std::size_t>(node.number));
      case ExprOp::element:
        return element(node);
      case ExprOp::length:
        return scope_.length(node.text);
      case ExprOp::stated:
        return scope_.is_stated(node.text);
      case ExprOp::zeros_every:
        return zeros_every(node);
      case ExprOp::period:
        return period(node);
      case ExprOp::logical_not:
        return !truth(value(node.args[0]));
      case ExprOp::logical_and:
        return truth(value(node.args[0])) && truth(value(node.args[1]));
      case ExprOp::logical_or:
        return truth(value(node.args[0])) || truth(value(node.args[1]));
      case ExprOp::choose:
        return value(node.args[truth(value(node.args[0])) ? 1 : 2]);
      case ExprOp::equal:
        return equal(value(node.args[0]), value(node.args[1]));
      case ExprOp::not_equal:
        return !equal(value(node.args[0]), value(node.args[1]));
      case ExprOp::coalesce: {
        ExprValue left = value(node.args[0]);
        if (!std::holds_alternative<Absent>(left)) return left;
        ExprValue right = value(node.args[1]);
        return std::holds_alternative<Absent>(right) ? neither(left, right) : right;
      }
      case ExprOp::square_root:
        return square_root(value(node.args[0]));
      case ExprOp::negate:
        return arithmetic(ExprOp::subtract, std::int64_t{0}, value(node.args[0]));
      default:
        return arithmetic(node.op, value(node.args[0]), value(node.args[1]));
    }
  }

  // If both values are absent, the error names the first, unless it is an option. Then the missing
  // key is in config.json.
  static ExprValue neither(const ExprValue& left, const ExprValue& right) {
    Absent out = std::get<Absent>(left);
    if (out.option) out.message = std::get<Absent>(right).message;
    return out;
  }

  ExprValue element(const ExprNode& node) const {
    const std::int64_t index = integer(value(node.args[0]));
    if (index < 0) {
      fail(fmt::format("expression {} looks up element {} of {}", text(), index, quote(node.text)));
    }
    return scope_.lookup(fmt::format("{}.{}{}", node.text, index, node.tail));
  }

  // Returns n if exactly each n-th element is zero, or 0 if no element is. Otherwise absent.
  ExprValue zeros_every(const ExprNode& list) const {
    const std::int64_t length = scope_.length(list.text);
    const auto is_zero = [&](std::int64_t index) {
      return !truth(scope_.lookup(fmt::format("{}.{}", list.text, index)));
    };
    std::int64_t every = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const bool zero = is_zero(i);
      if (zero && every == 0) every = i + 1;
      if (every != 0 && zero != ((i + 1) % every == 0))
        return Absent{fmt::format("the zeros in {} aren't periodic", quote(list.text)), false};
    }
    return every;
  }

  // Returns the smallest n with which every element equals the one n before, if there is one. 0 for
  // an empty list.
  std::int64_t period(const ExprNode& list) const {
    const auto length = static_cast<std::size_t>(scope_.length(list.text));
    std::vector<std::string> items;
    for (std::size_t i = 0; i < length; ++i)
      items.push_back(name_part(scope_.lookup(fmt::format("{}.{}", list.text, i))));
    // For each prefix, the length of the longest shorter one that it ends with (Knuth, Morris and
    // Pratt). It's linear, since a list can be long.
    std::vector<std::size_t> ends(length, 0);
    for (std::size_t i = 1; i < length; ++i) {
      std::size_t most = ends[i - 1];
      while (most > 0 && items[i] != items[most]) most = ends[most - 1];
      ends[i] = items[i] == items[most] ? most + 1 : 0;
    }
    return length == 0 ? 0 : static_cast<std::int64_t>(length - ends.back());
  }

  bool equal(const ExprValue& a, const ExprValue& b) const {
    for (const ExprValue* side : {&a, &b}) {
      if (const auto* absent = std::get_if<Absent>(side)) {
        if (!absent->option) fail(absent->message);
        return false;
      }
    }
    if (a.index() != b.index()) {
      fail(
          fmt::format("expression {} compares {} with {}", text(), shown_value(a), shown_value(b)));
    }
    if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
    if (const auto* flag = std::get_if<bool>(&a)) return *flag == std::get<bool>(b);
    if (std::holds_alternative<double>(a)) fail("don't compare real numbers for equality");
    return std::get<std::int64_t>(a) == std::get<std::int64_t>(b);
  }

  ExprValue square_root(const ExprValue& of) const {
    if (!real_) fail(fmt::format("expression {}: sqrt is allowed only in value rules", text()));
    return std::sqrt(real(of));
  }

  ExprValue arithmetic(ExprOp op, const ExprValue& a, const ExprValue& b) const {
    const bool reals =
        real_ ||
        (is_order(op) && (std::holds_alternative<double>(a) || std::holds_alternative<double>(b)));
    return reals ? on_reals(op, real(a), real(b)) : on_integers(op, integer(a), integer(b));
  }

  static bool is_order(ExprOp op) {
    return op == ExprOp::less || op == ExprOp::less_equal || op == ExprOp::greater ||
           op == ExprOp::greater_equal;
  }

  ExprValue on_reals(ExprOp op, double a, double b) const {
    switch (op) {
      case ExprOp::add:
        return a + b;
      case ExprOp::subtract:
        return a - b;
      case ExprOp::multiply:
        return a * b;
      case ExprOp::divide:
        return a / b;
      case ExprOp::less:
        return a < b;
      case ExprOp::less_equal:
        return a <= b;
      case ExprOp::greater:
        return a > b;
      case ExprOp::greater_equal:
        return a >= b;
      default:
        fail(fmt::format("expression {}: // and % need integers", text()));
    }
  }

  ExprValue on_integers(ExprOp op, std::int64_t a, std::int64_t b) const {
    std::int64_t out = 0;
    switch (op) {
      case ExprOp::less:
        return a < b;
      case ExprOp::less_equal:
        return a <= b;
      case ExprOp::greater:
        return a > b;
      case ExprOp::greater_equal:
        return a >= b;
      case ExprOp::add:
        if (__builtin_add_overflow(a, b, &out)) overflow();
        return out;
      case ExprOp::subtract:
        if (__builtin_sub_overflow(a, b, &out)) overflow();
        return out;
      case ExprOp::multiply:
        if (__builtin_mul_overflow(a, b, &out)) overflow();
        return out;
      default:
        return divide(op, a, b);
    }
  }

  ExprValue divide(ExprOp op, std::int64_t a, std::int64_t b) const {
    if (b == 0) fail(fmt::format("expression {} divides {} by zero", text(), a));
    if (b < 0 || a < 0) {
      fail(fmt::format("expression {} divides negative numbers, {} by {}", text(), a, b));
    }
    if (op == ExprOp::modulo) return a % b;
    if (op == ExprOp::divide && a % b != 0) {
      fail(fmt::format("expression {}: {} / {} isn't exact", text(), a, b));
    }
    return a / b;
  }

  [[noreturn]] void overflow() const {
    fail(fmt::format("expression {} doesn't fit in 64 bits", text()));
  }

  const ExprTree& tree_;
  const Scope& scope_;
  bool real_;
};

}  // namespace

std::string shown_value(const ExprValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "absent";
}

Expr::Expr(std::string_view text, std::string_view pointer)
    : tree_(std::make_shared<const ExprTree>(parse_expr(text, pointer))) {}

ExprValue Expr::evaluate(const Scope& scope) const {
  return Evaluator(*tree_, scope, false).root();
}

std::int64_t Expr::integer(const Scope& scope) const {
  const Evaluator evaluator(*tree_, scope, false);
  return evaluator.integer(evaluator.root());
}

std::string Expr::name_part(const Scope& scope) const {
  const Evaluator evaluator(*tree_, scope, false);
  return evaluator.name_part(evaluator.root());
}

bool Expr::truth(const Scope& scope) const {
  const Evaluator evaluator(*tree_, scope, false);
  return evaluator.truth(evaluator.root());
}

double Expr::real(const Scope& scope) const {
  const Evaluator evaluator(*tree_, scope, true);
  return evaluator.real(evaluator.root());
}

const std::string& Expr::text() const noexcept { return tree_->text; }
const std::string& Expr::pointer() const noexcept { return tree_->pointer; }

std::vector<std::string> Expr::names() const {
  std::vector<std::string> out;
  for (const ExprNode& node : tree_->nodes) {
    if (node.op == ExprOp::name || node.op == ExprOp::stated) out.push_back(node.text);
  }
  return out;
}

std::vector<std::string> Expr::lists() const {
  std::vector<std::string> out;
  for (const ExprNode& node : tree_->nodes) {
    if (node.op == ExprOp::element || node.op == ExprOp::length || node.op == ExprOp::zeros_every ||
        node.op == ExprOp::period)
      out.push_back(node.text);
  }
  return out;
}

}  // namespace hfshard
