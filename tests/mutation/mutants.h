#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hfshard::mutation {

/// The mistakes that a table's author can make.
enum class Kind : std::uint8_t {
  swap_dims,
  transpose,
  wrong_dim,
  swap_names,
  gate_up,
  drop_rule,
  index,
  window,
  stack_index,
  experts,
  scale,
  dtype_floor,
  condition,
};
inline constexpr std::size_t kKinds = 13;

std::string_view to_string(Kind kind) noexcept;

/// A place in a JSON document: keys, and indices as texts.
using Path = std::vector<std::string>;

/// Returns `#/schemes/maxtext/layer/rules/4`.
std::string pointer_of(const Path& path);

/// One changed, added or (without a value) removed member.
struct Edit {
  Path at;
  std::optional<Json> value;
};

struct Mutant {
  Kind kind = Kind::swap_dims;
  Path rule;  ///< its rule or group
  std::string before;
  std::string after;
  std::vector<Edit> edits;
};

/// Returns every mutant of a family file, in the order of the file's keys. No two have the same
/// text.
std::vector<Mutant> make_mutants(const Json& family);

/// Returns the family's text with the mutant's edits.
std::string text_of(const Json& family, const Mutant& mutant);

/// Returns the value at an existing path.
const Json& value_at(const Json& root, const Path& path);

}  // namespace hfshard::mutation
