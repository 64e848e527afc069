#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hfshard::mutation {

/// Half-open range of characters.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

/// One axis or factor of a pattern in the text.
struct AxisText {
  Span all;     ///< with its window
  Span core;    ///< without it
  Span offset;  ///< of a window, else empty
  Span total;
  std::vector<AxisText> parts;  ///< of a product

  bool is_window() const noexcept { return total.end > total.begin; }
};

/// `name [pattern]`, parsed without the program's own parser. Spans refer to `text`.
struct SideText {
  std::string text;
  Span name;
  Span pattern;  ///< between the brackets
  std::vector<AxisText> axes;

  std::string_view at(const Span& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

SideText parse_side(const std::string& text);

/// Returns the text with the span replaced.
std::string replaced(const std::string& text, const Span& span, std::string_view by);
/// Returns the text with two disjoint spans exchanged.
std::string exchanged(const std::string& text, Span a, Span b);

/// Returns whether this is a dim: not a product, a fixed index or `*`.
bool is_dim(const SideText& side, const AxisText& axis);
/// Returns whether this is a fixed index, `1/2`.
bool is_fixed(const SideText& side, const AxisText& axis);
/// Returns every dim of a pattern, at any depth, slow to fast.
std::vector<AxisText> dims_of(const SideText& side);
/// Returns every axis and factor, at any depth, outer first.
std::vector<AxisText> nodes_of(const SideText& side);
/// Returns the lists of neighbors: the axes, and the factors of each product.
std::vector<std::vector<AxisText>> lists_of(const SideText& side);

/// Returns the expressions in braces of a name, without the braces.
std::vector<Span> braces_of(std::string_view name);

}  // namespace hfshard::mutation
