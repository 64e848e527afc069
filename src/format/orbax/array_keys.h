#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard::format::orbax {

/// Returns the text before an array's own keys: its name and a slash, which a name can end with.
/// Source: google/tensorstore tensorstore/driver/zarr3/driver.cc (EnsureDirectoryPath).
std::string array_prefix(std::string_view name);

/// Returns the full key of an array's chunk or file: `w/c/0/1`.
std::string array_key(std::string_view array, std::string_view key);

/// Returns `a/b` for the key `a/b/zarr.json` of the file `zarr.json`. Empty if the key has another
/// file name.
std::optional<std::string_view> array_of_key(std::string_view key, std::string_view file);

/// Returns whether a key is for zarr v2's files without arrays, which hfshard doesn't read.
bool is_attributes(std::string_view key);

/// Returns the names of the arrays' directories, sorted.
std::vector<std::string> directory_names(std::vector<std::string> arrays);

}  // namespace hfshard::format::orbax
