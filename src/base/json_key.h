#pragma once

#include <simdjson.h>
#include <string_view>

namespace hfshard {

/// Returns the key of a field that simdjson reads on demand, unescaped. A key with a lone surrogate
/// is an error. Releases 3.1 and later take a parameter for this; 3.6 has no default for it.
/// Source: simdjson include/simdjson/generic/ondemand/field.h.
template <typename Field>
simdjson::simdjson_result<std::string_view> unescaped_key(Field& field) {
  if constexpr (requires { field.unescaped_key(false); }) {
    return field.unescaped_key(false);
  } else {
    return field.unescaped_key();
  }
}

}  // namespace hfshard
