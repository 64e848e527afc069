#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mapping/language/expr.h"

namespace hfshard {

/// A name with expressions in braces: `model.layers.{l}.mlp.`. Parsed once; immutable.
class NameTemplate {
 public:
  NameTemplate() = default;
  /// Throws: bad_input (unbalanced braces, expression).
  NameTemplate(std::string_view text, std::string_view pointer);

  /// Appends the name to `out`. The integers and texts of its expressions come from `scope`.
  void append(const Scope& scope, std::string& out) const;
  std::string name(const Scope& scope) const;
  /// Returns the text with names replaced that have a text as value: `{pre}layers.{l}.` is
  /// `model.layers.{l}.`.
  std::string shown(const Scope& scope) const;
  /// Returns the original text.
  const std::string& text() const noexcept { return text_; }
  /// Returns the names in its expressions.
  std::vector<std::string> names() const;

 private:
  struct Part {
    std::string literal;     ///< before the expression
    std::vector<Expr> expr;  ///< at most one
  };
  std::string text_;
  std::vector<Part> parts_;
};

}  // namespace hfshard
