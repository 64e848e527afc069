#include "mapping/language/pattern.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr int kMaxNesting = 8;

class PatternParser {
 public:
  PatternParser(std::string_view text, std::string_view pointer) : text_(text), pointer_(pointer) {}

  Pattern parse() {
    Pattern out;
    out.text = std::string(text_);
    if (text_ == "[*]") {
      out.whole = true;
      return out;
    }
    expect('[');
    skip_blanks();
    while (!peek(']')) {
      out.axes.push_back(node());
      skip_blanks();
    }
    expect(']');
    if (at_ != text_.size()) fail("the end");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view wanted) const {
    throw Error(ErrorCode::bad_input,
                fmt::format("pattern {} lacks {} at position {}", quote(text_), wanted, at_))
        .by_rule(pointer_);
  }

  bool peek(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void expect(char c) {
    if (!peek(c)) fail(fmt::format("'{}'", c));
    ++at_;
  }
  void skip_blanks() {
    while (peek(' ')) ++at_;
  }

  PatternNode node() {
    if (++depth_ > kMaxNesting) fail("a shallower nesting");
    PatternNode out;
    if (peek('(')) {
      out = product();
    } else if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      out.kind = PatternNode::Kind::fixed;
      out.index = number();
      expect('/');
      out.extent = number();
      if (out.index >= out.extent) fail("an index below its extent");
    } else {
      out.dim = name();
    }
    if (peek('@')) {
      ++at_;
      out.offset = expression(':');
      expect(':');
      out.total = expression(' ');
    }
    --depth_;
    return out;
  }

  PatternNode product() {
    PatternNode out;
    out.kind = PatternNode::Kind::product;
    expect('(');
    skip_blanks();
    while (!peek(')')) {
      out.parts.push_back(node());
      skip_blanks();
    }
    expect(')');
    if (out.parts.empty()) fail("a dim in the product");
    return out;
  }

  std::uint64_t number() {
    std::uint64_t value = 0;
    const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (result.ec != std::errc{}) fail("a number");
    at_ = static_cast<std::size_t>(result.ptr - text_.data());
    return value;
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    if (at_ == begin) fail("a dim");
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Parses up to `stop`, a blank, or a bracket that closes an outer one.
  Expr expression(char stop) {
    const std::size_t begin = at_;
    int open = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '(') ++open;
      if (open == 0 && (c == stop || c == ' ' || c == ']' || c == ')')) break;
      if (c == ')') --open;
    }
    return Expr(text_.substr(begin, at_ - begin), pointer_);
  }

  std::string_view text_;
  std::string_view pointer_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// Returns the extent of the node without its window.
std::uint64_t inner_extent(const PatternNode& node, const DimScope& scope,
                           std::string_view pointer) {
  if (node.kind == PatternNode::Kind::fixed) return node.extent;
  if (node.kind == PatternNode::Kind::dim) return scope.extent(node.dim);
  std::uint64_t out = 1;
  for (const PatternNode& part : node.parts) {
    const auto next = checked_mul(out, node_extent(part, scope, pointer));
    if (!next) {
      throw Error(ErrorCode::bad_input, fmt::format("the size {} doesn't fit in 64 bits",
                                                    quote(scope.shown(to_text(node)))))
          .by_rule(pointer);
    }
    out = *next;
  }
  return out;
}

std::uint64_t window_offset(const PatternNode& node, const DimScope& scope,
                            std::string_view pointer) {
  if (!node.offset) return 0;
  const std::int64_t offset = node.offset->integer(scope);
  const std::int64_t total = node.total->integer(scope);
  const std::uint64_t extent = inner_extent(node, scope, pointer);
  if (offset < 0 || total < 0 ||
      !in_range(static_cast<std::uint64_t>(offset), extent, static_cast<std::uint64_t>(total))) {
    throw Error(ErrorCode::bad_input,
                fmt::format("window {} of {} at {} passes its axis of {}",
                            quote(scope.shown(to_text(node))), extent, offset, total))
        .by_rule(pointer);
  }
  return static_cast<std::uint64_t>(offset);
}

// Appends the node's walks. `step` is the distance of neighbors along the node.
void walk(const PatternNode& node, std::uint64_t step, const DimScope& scope,
          std::string_view pointer, LaidOutPattern& out) {
  out.base += window_offset(node, scope, pointer) * step;
  if (node.kind == PatternNode::Kind::fixed) {
    out.base += node.index * step;
  } else if (node.kind == PatternNode::Kind::dim) {
    out.walks.push_back({node.dim, scope.extent(node.dim), step});
  } else {
    std::uint64_t inner = inner_extent(node, scope, pointer);
    for (const PatternNode& part : node.parts) {
      const std::uint64_t extent = node_extent(part, scope, pointer);
      inner = extent == 0 ? 0 : inner / extent;
      walk(part, step * inner, scope, pointer, out);
    }
  }
}

}  // namespace

void collect_dims(const PatternNode& node, std::vector<std::string>& out) {
  if (node.kind == PatternNode::Kind::dim) out.push_back(node.dim);
  for (const PatternNode& part : node.parts) collect_dims(part, out);
}

std::vector<std::string> Pattern::dims() const {
  std::vector<std::string> out;
  for (const PatternNode& axis : axes) collect_dims(axis, out);
  return out;
}

std::string to_text(const PatternNode& node) {
  std::string out;
  if (node.kind == PatternNode::Kind::fixed) {
    out = fmt::format("{}/{}", node.index, node.extent);
  } else if (node.kind == PatternNode::Kind::dim) {
    out = node.dim;
  } else {
    std::vector<std::string> parts;
    for (const PatternNode& part : node.parts) parts.push_back(to_text(part));
    out = "(" + join(parts, " ") + ")";
  }
  if (node.offset) out += "@" + node.offset->text() + ":" + node.total->text();
  return out;
}

Pattern parse_pattern(std::string_view text, std::string_view pointer) {
  Pattern out = PatternParser(text, pointer).parse();
  std::vector<std::string> dims = out.dims();
  std::ranges::sort(dims);
  const auto twice = std::ranges::adjacent_find(dims);
  if (twice != dims.end()) {
    throw Error(ErrorCode::bad_input,
                fmt::format("pattern {} names dim {} twice", quote(text), quote(*twice)))
        .by_rule(pointer)
        .hint("give the second one its own name under dims");
  }
  return out;
}

std::uint64_t node_extent(const PatternNode& node, const DimScope& scope,
                          std::string_view pointer) {
  if (!node.offset) return inner_extent(node, scope, pointer);
  window_offset(node, scope, pointer);  // checks the window
  return static_cast<std::uint64_t>(node.total->integer(scope));
}

LaidOutPattern lay_out(const Pattern& pattern, const DimScope& scope,
                       std::span<const std::uint64_t> stack, std::size_t at,
                       std::string_view pointer) {
  LaidOutPattern out;
  for (const PatternNode& axis : pattern.axes)
    out.shape.push_back(node_extent(axis, scope, pointer));
  const std::size_t rank = out.shape.rank();
  const std::size_t first = std::min(at, rank);
  for (std::size_t i = 0; i < stack.size(); ++i) out.shape.insert(first + i, stack[i]);
  static_cast<void>(out.shape.numel());  // throws on overflow, unlike the products below
  const Shape strides = out.shape.strides();
  for (std::size_t i = 0; i < stack.size(); ++i) out.stack_steps.push_back(strides[first + i]);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t place = axis < first ? axis : axis + stack.size();
    walk(pattern.axes[axis], strides[place], scope, pointer, out);
  }
  return out;
}

}  // namespace hfshard
