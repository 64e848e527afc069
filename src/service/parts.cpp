#include "service/parts.h"

#include <string>
#include <string_view>
#include <utility>

#include "mapping/resolve/bindings.h"

#include "hfshard/error.h"

namespace hfshard {

void add_parts(MappingOptions mapping, const std::function<bool(const MappingOptions&)>& take) {
  for (const std::string_view part : kParts) {
    MappingOptions more = mapping;
    if (!more.options.emplace(part, "true").second) continue;  // asked for or known
    try {
      if (take(more)) mapping = std::move(more);
    } catch (const Error& error) {  // this model doesn't have the part
      if (error.code() == ErrorCode::internal) throw;
    }
  }
}

}  // namespace hfshard
