#include "mutation/pattern_text.h"

#include <utility>

namespace hfshard::mutation {
namespace {

// Reads the axes of one pattern from `at` on.
class Reader {
 public:
  Reader(const std::string& text, std::size_t at, std::size_t end)
      : text_(text), at_(at), end_(end) {}

  std::vector<AxisText> list() {
    std::vector<AxisText> out;
    for (;;) {
      while (at_ < end_ && text_[at_] == ' ') ++at_;
      if (at_ == end_ || text_[at_] == ')') return out;
      out.push_back(axis());
    }
  }

 private:
  AxisText axis() {
    AxisText out;
    out.all.begin = out.core.begin = at_;
    if (text_[at_] == '(') {
      ++at_;
      out.parts = list();
      if (at_ < end_) ++at_;
    } else {
      while (at_ < end_ && text_[at_] != ' ' && text_[at_] != ')' && text_[at_] != '@') ++at_;
    }
    out.core.end = at_;
    if (at_ < end_ && text_[at_] == '@') {
      ++at_;
      out.offset = expression(':');
      if (at_ < end_ && text_[at_] == ':') ++at_;
      out.total = expression(' ');
    }
    out.all.end = at_;
    return out;
  }

  // Parses up to `stop`, a blank or the end of the product, outside of parentheses.
  Span expression(char stop) {
    Span out{at_, at_};
    for (int depth = 0; at_ < end_; ++at_) {
      const char c = text_[at_];
      if (depth == 0 && (c == stop || c == ' ' || c == ')')) break;
      if (c == '(') ++depth;
      if (c == ')') --depth;
    }
    out.end = at_;
    return out;
  }

  const std::string& text_;
  std::size_t at_;
  std::size_t end_;
};

void collect(const std::vector<AxisText>& axes, std::vector<AxisText>& out) {
  for (const AxisText& axis : axes) {
    out.push_back(axis);
    collect(axis.parts, out);
  }
}

void collect_lists(const std::vector<AxisText>& axes, std::vector<std::vector<AxisText>>& out) {
  out.push_back(axes);
  for (const AxisText& axis : axes) {
    if (!axis.parts.empty()) collect_lists(axis.parts, out);
  }
}

}  // namespace

SideText parse_side(const std::string& text) {
  SideText out;
  out.text = text;
  const std::size_t open = text.find(" [");
  out.name = {0, open};
  out.pattern = {open + 2, text.size() - 1};
  out.axes = Reader(out.text, out.pattern.begin, out.pattern.end).list();
  return out;
}

std::string replaced(const std::string& text, const Span& span, std::string_view by) {
  return text.substr(0, span.begin) + std::string(by) + text.substr(span.end);
}

std::string exchanged(const std::string& text, Span a, Span b) {
  if (b.begin < a.begin) std::swap(a, b);
  return text.substr(0, a.begin) + text.substr(b.begin, b.end - b.begin) +
         text.substr(a.end, b.begin - a.end) + text.substr(a.begin, a.end - a.begin) +
         text.substr(b.end);
}

bool is_dim(const SideText& side, const AxisText& axis) {
  return axis.parts.empty() && !is_fixed(side, axis) && side.at(axis.core) != "*";
}

bool is_fixed(const SideText& side, const AxisText& axis) {
  return axis.parts.empty() && side.at(axis.core).find('/') != std::string_view::npos;
}

std::vector<AxisText> dims_of(const SideText& side) {
  std::vector<AxisText> out;
  for (const AxisText& axis : nodes_of(side)) {
    if (is_dim(side, axis)) out.push_back(axis);
  }
  return out;
}

std::vector<AxisText> nodes_of(const SideText& side) {
  std::vector<AxisText> out;
  collect(side.axes, out);
  return out;
}

std::vector<std::vector<AxisText>> lists_of(const SideText& side) {
  std::vector<std::vector<AxisText>> out;
  collect_lists(side.axes, out);
  return out;
}

std::vector<Span> braces_of(std::string_view name) {
  std::vector<Span> out;
  for (std::size_t at = name.find('{'); at != std::string_view::npos; at = name.find('{', at)) {
    const std::size_t close = name.find('}', at);
    if (close == std::string_view::npos) break;
    out.push_back({at + 1, close});
    at = close;
  }
  return out;
}

}  // namespace hfshard::mutation
