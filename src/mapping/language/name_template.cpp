#include "mapping/language/name_template.h"

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {

NameTemplate::NameTemplate(std::string_view text, std::string_view pointer) : text_(text) {
  std::size_t at = 0;
  while (at < text.size() || parts_.empty()) {
    const std::size_t open = text.find_first_of("{}", at);
    Part part;
    part.literal = std::string(text.substr(at, open - at));
    if (open == std::string_view::npos) {
      parts_.push_back(std::move(part));
      break;
    }
    const std::size_t close = text.find('}', open);
    if (text[open] == '}' || close == std::string_view::npos) {
      throw Error(ErrorCode::bad_input, fmt::format("the braces in {} don't match", quote(text)))
          .by_rule(pointer);
    }
    part.expr.emplace_back(text.substr(open + 1, close - open - 1), pointer);
    parts_.push_back(std::move(part));
    at = close + 1;
  }
}

void NameTemplate::append(const Scope& scope, std::string& out) const {
  for (const Part& part : parts_) {
    out += part.literal;
    for (const Expr& expr : part.expr) out += expr.name_part(scope);
  }
}

std::string NameTemplate::name(const Scope& scope) const {
  std::string out;
  append(scope, out);
  return out;
}

std::string NameTemplate::shown(const Scope& scope) const {
  std::string out;
  for (const Part& part : parts_) {
    out += part.literal;
    for (const Expr& expr : part.expr) {
      const bool plain = expr.names() == std::vector<std::string>{expr.text()};
      const ExprValue value = plain ? scope.lookup(expr.text()) : ExprValue(Absent{});
      const auto* text = std::get_if<std::string>(&value);
      out += text != nullptr ? *text : "{" + expr.text() + "}";
    }
  }
  return out;
}

std::vector<std::string> NameTemplate::names() const {
  std::vector<std::string> out;
  for (const Part& part : parts_) {
    for (const Expr& expr : part.expr) {
      const std::vector<std::string> names = expr.names();
      out.insert(out.end(), names.begin(), names.end());
    }
  }
  return out;
}

}  // namespace hfshard
