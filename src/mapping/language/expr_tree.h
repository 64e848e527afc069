#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

enum class ExprOp : std::uint8_t {
  number,
  real,
  text,
  boolean,
  absent,
  name,
  exists,
  extent,   ///< number: the axis
  element,  ///< text[args[0]], then tail
  length,
  stated,
  zeros_every,
  period,
  negate,
  logical_not,
  square_root,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  coalesce,
  choose,
};

struct ExprNode {
  ExprOp op = ExprOp::number;
  std::int64_t number = 0;  ///< number; 0 or 1 for a boolean
  double real = 0;          ///< a number with a fraction
  /// A text, a name, the tensor of exists() or extent(), or the path of an
  /// element, a length or stated().
  std::string text;
  std::string tail;  ///< of an element, after the bracket
  std::array<std::uint32_t, 3> args{};
};

/// The parsed form. Nodes refer to earlier nodes; the last node is the root.
struct ExprTree {
  std::string text;
  std::string pointer;
  std::vector<ExprNode> nodes;
};

/// Parses an expression. Throws: bad_input with the position.
ExprTree parse_expr(std::string_view text, std::string_view pointer);

}  // namespace hfshard
