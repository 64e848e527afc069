#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/tree.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::string_view kRootDirectory = "metadata";
constexpr std::string_view kRootFile = "_ROOT_METADATA";

}  // namespace

std::vector<std::string> find_root_files(const StorePath& root) {
  const std::string name = fmt::format("{}/{}", kRootDirectory, kRootFile);
  const StorePath path = root / name;
  if (!path.is_file()) return {};
  try {
    const Json text = parse_metadata(path.read(), path.text());
    const Json* custom = text.is_object() ? text.find("custom_metadata") : nullptr;
    if (custom == nullptr || *custom == Json() || *custom == Json(Json::Object())) return {};
  } catch (const Error& error) {  // it is copied, not parsed
    if (error.code() == ErrorCode::io) throw;
  }
  return {name};
}

}  // namespace hfshard::format::orbax
