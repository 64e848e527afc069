#include <cctype>
#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/expr_tree.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr int kMaxDepth = 64;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_part(char c) {
  return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

struct BinaryOp {
  std::string_view sign;
  ExprOp op;
};

// Recursive descent, one function per level of precedence.
class Parser {
 public:
  Parser(std::string_view text, std::string_view pointer)
      : tree_{std::string(text), std::string(pointer), {}} {}

  ExprTree parse() && {
    choose();
    skip_blanks();
    if (at_ < tree_.text.size()) fail("an operator or the end");
    return std::move(tree_);
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw Error(ErrorCode::bad_input, fmt::format("expression {} lacks {} at position {}",
                                                  quote(tree_.text), wanted, at_))
        .by_rule(tree_.pointer);
  }

  void skip_blanks() {
    while (at_ < tree_.text.size() && tree_.text[at_] == ' ') ++at_;
  }

  bool accept(std::string_view sign) {
    skip_blanks();
    if (std::string_view(tree_.text).substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }

  void expect(std::string_view sign) {
    if (!accept(sign)) fail(quote(sign));
  }

  std::uint32_t push(ExprNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }

  std::uint32_t combine(ExprOp op, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
    ExprNode node;
    node.op = op;
    node.args = {a, b, c};
    return push(std::move(node));
  }

  std::uint32_t choose() {
    if (++depth_ > kMaxDepth) fail("a shallower nesting");
    const std::uint32_t condition = coalesce();
    std::uint32_t out = condition;
    if (accept("?")) {
      const std::uint32_t yes = choose();
      expect(":");
      const std::uint32_t no = choose();
      out = combine(ExprOp::choose, condition, yes, no);
    }
    --depth_;
    return out;
  }

  std::uint32_t coalesce() {
    const std::uint32_t left = level(0);
    return accept("??") ? combine(ExprOp::coalesce, left, coalesce()) : left;
  }

  // Left-associative binary operators, weak to strong; longer signs stand before their prefixes.
  std::uint32_t level(std::size_t index) {
    static const std::vector<std::vector<BinaryOp>> kLevels = {
        {{"||", ExprOp::logical_or}},
        {{"&&", ExprOp::logical_and}},
        {{"==", ExprOp::equal}, {"!=", ExprOp::not_equal}},
        {{"<=", ExprOp::less_equal},
         {">=", ExprOp::greater_equal},
         {"<", ExprOp::less},
         {">", ExprOp::greater}},
        {{"+", ExprOp::add}, {"-", ExprOp::subtract}},
        {{"*", ExprOp::multiply},
         {"//", ExprOp::floor_divide},
         {"/", ExprOp::divide},
         {"%", ExprOp::modulo}},
    };
    if (index == kLevels.size()) return unary();
    std::uint32_t left = level(index + 1);
    for (;;) {
      const BinaryOp* found = nullptr;
      for (const BinaryOp& candidate : kLevels[index]) {
        if (accept(candidate.sign)) {
          found = &candidate;
          break;
        }
      }
      if (found == nullptr) return left;
      left = combine(found->op, left, level(index + 1));
    }
  }

  std::uint32_t unary() {
    if (++depth_ > kMaxDepth) fail("a shallower nesting");
    std::uint32_t out = 0;
    if (accept("!")) {
      out = combine(ExprOp::logical_not, unary());
    } else if (accept("-")) {
      out = combine(ExprOp::negate, unary());
    } else {
      out = primary();
    }
    --depth_;
    return out;
  }

  std::uint32_t primary() {
    if (accept("(")) {
      const std::uint32_t inner = choose();
      expect(")");
      return inner;
    }
    skip_blanks();
    if (at_ >= tree_.text.size()) fail("an operand");
    const char c = tree_.text[at_];
    if (c == '\'') return quoted(ExprOp::text);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (is_name_start(c)) return name();
    fail("an operand");
  }

  std::uint32_t quoted(ExprOp op) {
    skip_blanks();
    expect("'");
    const std::size_t end = tree_.text.find('\'', at_);
    if (end == std::string::npos) fail("a closing quote");
    ExprNode node;
    node.op = op;
    node.text = tree_.text.substr(at_, end - at_);
    at_ = end + 1;
    return push(std::move(node));
  }

  std::uint32_t number() {
    ExprNode node;
    const char* begin = tree_.text.data() + at_;
    const char* end = tree_.text.data() + tree_.text.size();
    const auto result = std::from_chars(begin, end, node.number);
    if (result.ec != std::errc{}) fail("an integer of 64 bits");
    at_ += static_cast<std::size_t>(result.ptr - begin);
    return push(std::move(node));
  }

  // A dotted path, or what is left of one.
  std::string path() {
    const std::size_t begin = at_;
    while (at_ < tree_.text.size()) {
      const bool dot = tree_.text[at_] == '.' && at_ + 1 < tree_.text.size() &&
                       is_name_part(tree_.text[at_ + 1]);
      if (!dot && !is_name_part(tree_.text[at_])) break;
      ++at_;
    }
    return tree_.text.substr(begin, at_ - begin);
  }

  // `list[index].rest`
  std::uint32_t element(ExprNode node) {
    ++at_;
    node.op = ExprOp::element;
    node.args[0] = choose();
    expect("]");
    node.tail = path();
    return push(std::move(node));
  }

  std::uint32_t length() {
    expect("(");
    skip_blanks();
    ExprNode node;
    node.op = ExprOp::length;
    node.text = path();
    if (node.text.empty() || !is_name_start(node.text[0])) fail("a list of config.json");
    expect(")");
    return push(std::move(node));
  }

  std::uint32_t extent() {
    expect("(");
    ExprNode node = tree_.nodes[quoted(ExprOp::extent)];
    expect(",");
    skip_blanks();
    node.number = tree_.nodes[number()].number;
    expect(")");
    return push(std::move(node));
  }

  std::uint32_t name() {
    ExprNode node;
    node.text = path();
    if (at_ < tree_.text.size() && tree_.text[at_] == '[') return element(std::move(node));
    if (node.text == "length") return length();
    if (node.text == "sqrt") {
      expect("(");
      const std::uint32_t inner = choose();
      expect(")");
      return combine(ExprOp::square_root, inner);
    }
    if (node.text == "exists") {
      expect("(");
      const std::uint32_t tensor = quoted(ExprOp::exists);
      expect(")");
      return tensor;
    }
    if (node.text == "extent") return extent();
    node.op = node.text == "true" || node.text == "false" ? ExprOp::boolean : ExprOp::name;
    node.number = node.text == "true" ? 1 : 0;
    return push(std::move(node));
  }

  ExprTree tree_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ExprTree parse_expr(std::string_view text, std::string_view pointer) {
  return Parser(text, pointer).parse();
}

}  // namespace hfshard
