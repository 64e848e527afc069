#include "format/orbax/other_files.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "format/orbax/metadata.h"
#include "format/orbax/structure.h"

namespace hfshard::format::orbax {
namespace {

// Files of Orbax, TensorStore and zarr in the directory of a tree. Sources: google/orbax
// checkpoint/orbax/checkpoint/_src/serialization/type_handlers.py and ocdbt_utils.py, google/
// tensorstore tensorstore/kvstore/ocdbt (data directories), zarr v2.
constexpr std::array<std::string_view, 15> kKnown{
    kTreeFile,   kManifestFile, kLegacyFile,  kStepFile,
    kCommitFile, kShardingFile, kTextsFile,   kArrayMetadataDirectory,
    kArrayFile,  "d",           "ocdbt_data", "ocdbt_meta",
    ".zattrs",   ".zgroup",     ".zmetadata"};
constexpr std::string_view kProcess = "ocdbt.process_";

}  // namespace

std::vector<std::string> other_files(const StorePath& item,
                                     const std::vector<std::string>& arrays) {
  std::vector<std::string> out = item.list();
  const auto is_record = [](const std::string& name) { return name.starts_with(kRecordPrefix); };
  if (std::ranges::any_of(out, is_record)) return {};  // config and tokenizer are here too
  // A tree that is one array has no name, and its chunks (`0.1`, `c/0/1`) lie here.
  const bool is_array = std::ranges::find(arrays, "") != arrays.end();
  const auto is_chunk = [&](const std::string& name) {
    return is_array && (name == "c" || name.find_first_not_of("0123456789.") == std::string::npos);
  };
  std::set<std::string_view> array_directories;
  for (const std::string_view name : arrays)
    array_directories.insert(name.substr(0, name.find('/')));
  std::erase_if(out, [&](const std::string& name) {
    return std::ranges::find(kKnown, name) != kKnown.end() || name.starts_with(kProcess) ||
           is_chunk(name) || array_directories.contains(name);
  });
  std::ranges::sort(out);
  return out;
}

}  // namespace hfshard::format::orbax
