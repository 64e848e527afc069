#include "format/orbax/array_keys.h"

#include <algorithm>

namespace hfshard::format::orbax {

std::string array_prefix(std::string_view name) {
  std::string out(name);
  if (!out.empty() && out.back() != '/') out += '/';
  return out;
}

std::string array_key(std::string_view array, std::string_view key) {
  return array_prefix(array).append(key);
}

std::optional<std::string_view> array_of_key(std::string_view key, std::string_view file) {
  if (key == file) return "";
  if (!key.ends_with(file)) return std::nullopt;
  key.remove_suffix(file.size());
  if (!key.ends_with('/')) return std::nullopt;
  return key.substr(0, key.size() - 1);
}

bool is_attributes(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == ".zattrs" || name == ".zgroup" || name == ".zmetadata";
}

std::vector<std::string> directory_names(std::vector<std::string> arrays) {
  for (std::string& array : arrays) {
    if (array.ends_with('/')) array.pop_back();
  }
  std::ranges::sort(arrays);
  return arrays;
}

}  // namespace hfshard::format::orbax
