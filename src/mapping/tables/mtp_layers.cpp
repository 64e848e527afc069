#include "mapping/tables/mtp_layers.h"

#include <algorithm>

#include "base/text.h"
#include "mapping/tables/expand.h"
#include "mapping/tables/schema.h"

namespace hfshard {
namespace {

struct MtpKeys {
  std::vector<std::string> counts;
  std::vector<std::string> names;
};

const MtpKeys& mtp_keys() {
  static const MtpKeys kKeys = [] {
    const JsonAt at = JsonAt(common_mappings(), "mappings/common.json#").at("mtp");
    at.check_keys(Block::mtp);
    return MtpKeys{at.at("counts").texts(), at.at("names").texts()};
  }();
  return kKeys;
}

// Sets the counts of an object to 0, and those of objects in it, such as "text_config".
void clear(Json& at, std::string& first) {
  for (auto& [key, value] : at.object()) {
    if (value.is_object()) clear(value, first);
    const bool counts = std::ranges::find(mtp_keys().counts, key) != mtp_keys().counts.end();
    if (!counts || !value.is_integer() || value.as_int() <= 0) continue;
    value = Json(std::int64_t{0});
    if (first.empty()) first = key;
  }
}

}  // namespace

std::optional<WithoutMtp> without_mtp(const Json& config, const std::vector<std::string>& names) {
  const auto is_mtp = [](const std::string& name) {
    return std::ranges::any_of(mtp_keys().names,
                               [&](const std::string& glob) { return glob_match(glob, name); });
  };
  if (!config.is_object() || std::ranges::any_of(names, is_mtp)) return std::nullopt;
  WithoutMtp out{config, {}};
  clear(out.config, out.key);
  if (out.key.empty()) return std::nullopt;
  return out;
}

}  // namespace hfshard
