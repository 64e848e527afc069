#include "mapping/tables/decode_rule.h"

#include <algorithm>

#include "base/text.h"

namespace hfshard {
namespace {

constexpr std::string_view kStem = "{stem}";

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// Returns the text after the last star of a glob.
std::string_view tail_of(const std::optional<std::string>& glob) {
  if (!glob) return {};
  const std::size_t star = glob->rfind('*');
  return std::string_view(*glob).substr(star == std::string::npos ? 0 : star + 1);
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
    case DecodeKind::int8:
      return "int8";
    case DecodeKind::packed:
      return "packed";
  }
  return "";
}

bool DecodeRule::takes(std::string_view tensor, std::optional<DType> stored,
                       const Scope& scope) const {
  return (!stored || dtypes.empty() || std::ranges::find(dtypes, *stored) != dtypes.end()) &&
         (!name || glob_match(*name, tensor)) && (!when || when->truth(scope));
}

std::string DecodeRule::beside(std::string_view pattern, std::string_view tensor) const {
  std::string_view stem = tensor;
  stem.remove_suffix(std::min(tail_of(name).size(), stem.size()));
  std::string out(pattern);
  replace(out, "{name}", tensor);
  replace(out, kStem, stem);
  return out;
}

std::string DecodeRule::value_name(std::string_view tensor) const {
  return as.empty() ? std::string(tensor) : beside(as, tensor);
}

std::string DecodeRule::stored_name(std::string_view value) const {
  if (!as.starts_with(kStem)) return {};
  const std::string_view end = std::string_view(as).substr(kStem.size());
  if (!value.ends_with(end)) return {};
  std::string out(value.substr(0, value.size() - end.size()));
  out += tail_of(name);
  return out;
}

}  // namespace hfshard
