#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

enum class ExprOp : std::uint8_t {
  number,
  text,
  boolean,
  name,
  exists,
  extent,   ///< number: which axis
  element,  ///< text[args[0]] and, behind it, tail
  length,
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
  std::string text;  ///< text, name, tensor of exists() or extent(), list of an element or a length
  std::string tail;  ///< of an element: what follows the bracket
  std::array<std::uint32_t, 3> args{};
};

/// The parsed form: nodes refer to earlier nodes, the root is the last one.
struct ExprTree {
  std::string text;
  std::string pointer;
  std::vector<ExprNode> nodes;
};

/// Throws: bad_input with the position.
ExprTree parse_expr(std::string_view text, std::string_view pointer);

}  // namespace hfshard
