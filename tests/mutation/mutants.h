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

/// `#/schemes/maxtext/layer/rules/4`
std::string pointer_of(const Path& path);

/// One changed, added or (without a value) removed member.
struct Edit {
  Path at;
  std::optional<Json> value;
};

struct Mutant {
  Kind kind = Kind::swap_dims;
  Path rule;  ///< the rule or group that it is in
  std::string before;
  std::string after;
  std::vector<Edit> edits;
};

/// Every mutant of a family file, in the order of the file's keys; no two have the same text.
std::vector<Mutant> make_mutants(const Json& family);

/// The family's text with the mutant's edits.
std::string text_of(const Json& family, const Mutant& mutant);

/// The value at a path that exists.
const Json& value_at(const Json& root, const Path& path);

}  // namespace hfshard::mutation
