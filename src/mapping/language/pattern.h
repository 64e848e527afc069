#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/language/expr.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// One axis, or one factor of a product, as written.
struct PatternNode {
  enum class Kind : std::uint8_t { dim, product, fixed };
  Kind kind = Kind::dim;
  std::string dim;                 ///< kind dim
  std::vector<PatternNode> parts;  ///< kind product, outer first
  /// Kind fixed: index 1 of an axis of extent 2 is `1/2`.
  std::uint64_t index = 0;
  std::uint64_t extent = 1;    ///< kind fixed
  std::optional<Expr> offset;  ///< window `X@offset:total`; both or neither
  std::optional<Expr> total;
};

/// The shape of one tensor over named dims, slow to fast: `[(H h) D]`, `[V@0:Vm D]`, `[]`, `[*]`.
struct Pattern {
  std::string text;    ///< with brackets
  bool whole = false;  ///< `[*]`: any shape
  std::vector<PatternNode> axes;

  /// Returns the dims of the pattern, slow to fast.
  std::vector<std::string> dims() const;
};

/// Parses a pattern with its brackets. Throws: bad_input (also a repeated dim) with the position.
Pattern parse_pattern(std::string_view text, std::string_view pointer);

/// Collects the dims of one node, slow to fast.
void collect_dims(const PatternNode& node, std::vector<std::string>& out);
/// Returns the node's text: `(H h)`, `V@0:Vm`.
std::string to_text(const PatternNode& node);

/// Extents of dims, and the scope for window expressions.
class DimScope : public Scope {
 public:
  /// Returns the extent of a dim, or of a loop that is used as a dim. Throws: bad_input (unknown,
  /// negative).
  virtual std::uint64_t extent(const std::string& dim) const = 0;
};

/// One named dim of a laid-out pattern: `extent` positions, `step` elements apart in the tensor.
struct Walk {
  std::string dim;
  std::uint64_t extent = 1;
  std::uint64_t step = 1;
};

/// A pattern with numbers: the tensor's shape, the offset of its first element and the walks, slow
/// to fast.
struct LaidOutPattern {
  Shape shape;
  std::uint64_t base = 0;
  std::vector<Walk> walks;
  std::vector<std::uint64_t> stack_steps;  ///< one per inserted stack axis
};

/// Lays the pattern out row-major, with the stack axes inserted before axis min(at, rank).
LaidOutPattern lay_out(const Pattern& pattern, const DimScope& scope,
                       std::span<const std::uint64_t> stack, std::size_t at,
                       std::string_view pointer);

/// Returns the extent of one node. If it has a window, that of its whole axis.
std::uint64_t node_extent(const PatternNode& node, const DimScope& scope, std::string_view pointer);

}  // namespace hfshard
