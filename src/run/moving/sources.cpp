#include "run/moving/sources.h"

#include "bytes/files.h"
#include "bytes/storage.h"

#include "hfshard/error.h"

namespace hfshard {

OpenSources open_sources(const Catalog& catalog, IoMode mode, std::uint64_t cached_bytes) {
  // Not at once: tensors that feed two leaves are read by tiles that are near each other.
  const auto behind = std::make_shared<DropBehind>(cached_bytes);
  OpenSources out;
  out.reserve(catalog.files.size());
  for (const CatalogFile& file : catalog.files) {
    auto source = std::make_unique<DataSource>(file.path, mode, behind);
    if (source->stamp() != FileStamp{file.size_bytes, file.mtime_ns, file.inode}) {
      throw changed_source(file.path);
    }
    out.push_back(std::move(source));
  }
  return out;
}

void check_unchanged(const OpenSources& sources) {
  for (const auto& source : sources) source->check_unchanged();
}

void check_unchanged(const Catalog& catalog) {
  for (const CatalogFile& file : catalog.files) {
    const auto info = file_info(file.path);
    if (!info || info->stamp != FileStamp{file.size_bytes, file.mtime_ns, file.inode})
      throw changed_source(file.path);
  }
}

std::vector<IoChoice> choices_of(const OpenSources& sources) {
  std::vector<IoChoice> out;
  for (const auto& source : sources) count_choice(out, source->mode(), source->why());
  return out;
}

}  // namespace hfshard
