#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "mapping/language/expr.h"

namespace hfshard {

/// Finds a key of config.json at the family's places. Null if it is absent or null.
using ConfigKey = std::function<const Json*(const std::string&)>;

/// Returns a fact about rotary positions as transformers reads it, for a config.json from any
/// release. `name` is a fact, or LAYER_TYPE.FACT for one kind of layers. Without a layer type it
/// means full attention. Keys without a layer type aren't for sliding layers, and their base is for
/// the main layers only. Facts:
/// - `type`: default, linear, dynamic, yarn, longrope, llama3, proportional, or another text;
/// - `theta`: the effective base; a stale one next to `rope_parameters` is ignored;
/// - `attention`: how yarn and longrope scale cos and sin: none, yarn (0.1 ln(factor) + 1), other;
/// - `said`: whether config.json states a type at all;
/// - `longest`: the number of positions, with those that yarn adds;
/// - `mrope_section`: as in config.json, or as transformers adapts it or its default to another
///   width of heads;
/// - every other key under its own name: `factor`, `beta_fast`, `truncate`,
///   `original_max_position_embeddings`, ... with the defaults of transformers.
/// Source: transformers 5.23.0 modeling_rope_utils.py (convert_rope_params_to_dict,
/// standardize_rope_params, _compute_yarn_parameters, _compute_longrope_parameters).
ExprValue rope_fact(const ConfigKey& find, std::string_view name);

}  // namespace hfshard
