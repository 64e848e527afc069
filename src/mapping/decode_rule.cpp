#include <algorithm>

#include "base/text.h"
#include "mapping/table.h"

namespace hfshard {
namespace {

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string_view to_string(DecodeKind kind) noexcept {
  switch (kind) {
    case DecodeKind::block:
      return "block";
    case DecodeKind::tensor:
      return "tensor";
    case DecodeKind::mx:
      return "mx";
    case DecodeKind::int4:
      return "int4";
  }
  return "";
}

bool DecodeRule::takes(std::string_view tensor, std::optional<DType> stored,
                       const Scope& scope) const {
  return (!stored || dtypes.empty() || std::ranges::find(dtypes, *stored) != dtypes.end()) &&
         (!name || glob_match(*name, tensor)) && (!when || when->truth(scope));
}

std::string DecodeRule::scale_name(std::string_view tensor) const {
  std::string_view stem = tensor;
  if (name) {
    const std::size_t star = name->rfind('*');
    const std::size_t tail = name->size() - (star == std::string::npos ? 0 : star + 1);
    stem.remove_suffix(std::min(tail, stem.size()));
  }
  std::string out = scale;
  replace(out, "{name}", tensor);
  replace(out, "{stem}", stem);
  return out;
}

}  // namespace hfshard
