#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mapping/tables/table.h"

namespace hfshard {

/// The inputs of an expression's value, including those of dims that it names. Sorted.
struct ExprInputs {
  std::vector<std::string> keys;     ///< of config.json, dotted
  std::vector<std::string> options;  ///< without "option."
};

ExprInputs inputs_of(const MappingTable& table, const Expr& expr);
/// Returns the inputs of a dim's extent. Empty for a name that isn't a dim.
ExprInputs inputs_of(const MappingTable& table, std::string_view dim);

/// Returns the keys for errors: "head_dim and hidden_size in config.json". Empty without keys.
std::string keys_text(const ExprInputs& inputs);

/// Returns an expression with the names of dims replaced by their expressions.
std::string spelled_out(const MappingTable& table, std::string_view text);

}  // namespace hfshard
