#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/language/expr_tree.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr int kMaxDepth = 96;
// The longest expression of the built-in families has 468 characters.
constexpr std::size_t kMaxText = 4096;
// Evaluation recurses over the tree, and `1+1+1` is as deep as it is long.
constexpr std::uint32_t kMaxTreeDepth = 128;
// Errors quote this much of an expression that is too long.
constexpr std::size_t kQuoted = 64;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_part(char c) {
  return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

struct BinaryOp {
  std::string_view sign;
  ExprOp op;
};

// A recursive-descent parser with one function per level of precedence.
class Parser {
 public:
  Parser(std::string_view text, std::string_view pointer)
      : tree_{std::string(text), std::string(pointer), {}} {}

  ExprTree parse() && {
    if (tree_.text.size() > kMaxText) {
      throw Error(ErrorCode::limit,
                  fmt::format("expression {}.. has {} characters; at most {} are allowed",
                              quote(tree_.text.substr(0, kQuoted)), tree_.text.size(), kMaxText))
          .by_rule(tree_.pointer);
    }
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

  // The node's `args` are those of `parts`. Other arguments are never evaluated.
  std::uint32_t push(ExprNode node, std::initializer_list<std::uint32_t> parts = {}) {
    std::uint32_t depth = 1;
    for (const std::uint32_t part : parts) depth = std::max(depth, depths_[part] + 1);
    if (depth > kMaxTreeDepth) {
      throw Error(ErrorCode::limit,
                  fmt::format("expression {}.. has more than {} operators in a row",
                              quote(tree_.text.substr(0, kQuoted)), kMaxTreeDepth))
          .by_rule(tree_.pointer);
    }
    depths_.push_back(depth);
    tree_.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }

  std::uint32_t combine(ExprOp op, std::initializer_list<std::uint32_t> parts) {
    ExprNode node;
    node.op = op;
    std::ranges::copy(parts, node.args.begin());
    return push(std::move(node), parts);
  }

  std::uint32_t choose() {
    if (++depth_ > kMaxDepth) fail("a shallower nesting");
    const std::uint32_t condition = coalesce();
    std::uint32_t out = condition;
    if (accept("?")) {
      const std::uint32_t yes = choose();
      expect(":");
      const std::uint32_t no = choose();
      out = combine(ExprOp::choose, {condition, yes, no});
    }
    --depth_;
    return out;
  }

  std::uint32_t coalesce() {
    if (++depth_ > kMaxDepth) fail("a shallower nesting");
    const std::uint32_t left = level(0);
    const std::uint32_t out = accept("??") ? combine(ExprOp::coalesce, {left, coalesce()}) : left;
    --depth_;
    return out;
  }

  // Parses left-associative binary operators, weak to strong. Longer signs come before their
  // prefixes.
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
      left = combine(found->op, {left, level(index + 1)});
    }
  }

  std::uint32_t unary() {
    if (++depth_ > kMaxDepth) fail("a shallower nesting");
    std::uint32_t out = 0;
    if (accept("!")) {
      out = combine(ExprOp::logical_not, {unary()});
    } else if (accept("-")) {
      out = combine(ExprOp::negate, {unary()});
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
    const bool has_fraction = end - result.ptr > 1 && result.ptr[0] == '.' &&
                              result.ptr[1] >= '0' && result.ptr[1] <= '9';
    const char* behind = result.ptr;
    if (has_fraction) {
      node.op = ExprOp::real;
      behind = std::from_chars(begin, end, node.real, std::chars_format::fixed).ptr;
    }
    at_ += static_cast<std::size_t>(behind - begin);
    return push(std::move(node));
  }

  // Parses a dotted path, or the rest of one.
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

  // Parses `list[index].rest`.
  std::uint32_t element(ExprNode node) {
    ++at_;
    node.op = ExprOp::element;
    node.args[0] = choose();
    expect("]");
    node.tail = path();
    const std::uint32_t index = node.args[0];
    return push(std::move(node), {index});
  }

  std::uint32_t of_path(ExprOp op, const char* wanted) {
    expect("(");
    skip_blanks();
    ExprNode node;
    node.op = op;
    node.text = path();
    if (node.text.empty() || !is_name_start(node.text[0])) fail(wanted);
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
    if (node.text == "length") return of_path(ExprOp::length, "a list of config.json");
    if (node.text == "zeros_every") return of_path(ExprOp::zeros_every, "a list of config.json");
    if (node.text == "period") return of_path(ExprOp::period, "a list of config.json");
    if (node.text == "stated") return of_path(ExprOp::stated, "a path in config.json");
    if (node.text == "sqrt") {
      expect("(");
      const std::uint32_t inner = choose();
      expect(")");
      return combine(ExprOp::square_root, {inner});
    }
    if (node.text == "exists") {
      expect("(");
      const std::uint32_t tensor = quoted(ExprOp::exists);
      expect(")");
      return tensor;
    }
    if (node.text == "extent") return extent();
    if (node.text == "null") return combine(ExprOp::absent, {});
    node.op = node.text == "true" || node.text == "false" ? ExprOp::boolean : ExprOp::name;
    node.number = node.text == "true" ? 1 : 0;
    return push(std::move(node));
  }

  ExprTree tree_;
  std::vector<std::uint32_t> depths_;  // of the tree below each node
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ExprTree parse_expr(std::string_view text, std::string_view pointer) {
  return Parser(text, pointer).parse();
}

}  // namespace hfshard
