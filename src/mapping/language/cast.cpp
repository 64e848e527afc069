#include <fmt/format.h>

#include "hfshard/mapping.h"

namespace hfshard {

std::string to_string(const Cast& cast) {
  return fmt::format("{}={}", cast.glob, to_string(cast.dtype));
}

std::optional<Cast> parse_cast(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  const auto dtype = dtype_from_string(text.substr(equals + 1));
  if (!dtype) return std::nullopt;
  return Cast{std::string(text.substr(0, equals)), *dtype};
}

}  // namespace hfshard
