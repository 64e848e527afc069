#include "tool/environment.h"

#include <cstdlib>

namespace hfshard {

std::optional<std::string> variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

}  // namespace hfshard
