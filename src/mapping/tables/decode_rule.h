#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/language/expr.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// The storage of a coded tensor. `block` and `tensor` are 8-bit floats with a scale per block or
/// per tensor. `mx` is packed E2M1, `int4` is packed offset-8 integers, `int8` is plain 8-bit
/// integers. `packed` is integers of 4 or 8 bits in 32-bit words.
enum class DecodeKind : std::uint8_t { block, tensor, mx, int4, int8, packed };

/// Returns whether several codes share a byte or a word.
constexpr bool is_packed(DecodeKind kind) noexcept {
  return kind == DecodeKind::mx || kind == DecodeKind::int4 || kind == DecodeKind::packed;
}

/// The tensors with codes of one kind, and the names of their scales. In other tensors' names,
/// {name} is the tensor's name. {stem} is the tensor's name without the text that the glob's end
/// matched.
struct DecodeRule {
  std::string pointer;
  DecodeKind kind = DecodeKind::block;
  std::optional<Expr> when;
  std::optional<std::string> name;  ///< glob on tensor names
  std::vector<DType> dtypes;        ///< as stored; empty: any
  std::string scale;                ///< name of the scale tensor
  std::vector<DType> scale_dtypes;  ///< empty: any
  std::vector<Expr> block;          ///< rows, columns; else from the shapes
  std::string zeros;                ///< name of the zero points, if any
  std::string factor;               ///< the factor's name, if any
  bool divides = false;             ///< scales are divided by it
  std::string as;                   ///< its name in rules, if different
  bool rounds = false;              ///< to the scales' dtype, if F16
  /// Whether configs for which this is true use the codes. Then a tensor without its scales is an
  /// error. Absent means true.
  std::optional<Expr> usual;

  /// Returns whether the rule is for tensors with this name and stored dtype, with this config. An
  /// empty `stored` means any dtype.
  bool takes(std::string_view tensor, std::optional<DType> stored, const Scope& scope) const;
  bool is_usual(const Scope& scope) const { return !usual || usual->truth(scope); }
  std::string scale_name(std::string_view tensor) const { return beside(scale, tensor); }
  /// Fills this tensor's name into a name pattern.
  std::string beside(std::string_view pattern, std::string_view tensor) const;
  /// Returns the name in rules for a tensor that is stored under this name.
  std::string value_name(std::string_view tensor) const;
  /// Returns the stored name for a name in rules. Empty if the rule has no such tensor.
  std::string stored_name(std::string_view value) const;
};

/// Returns the name in a family's `decode`: "block".
std::string_view to_string(DecodeKind kind) noexcept;

}  // namespace hfshard
