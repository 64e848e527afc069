#include "run/moving/sources.h"

#include "bytes/drop_behind.h"
#include "bytes/storage.h"

#include "hfshard/error.h"

namespace hfshard {

OpenSources open_sources(const Catalog& catalog, IoMode mode, std::uint64_t cached_bytes) {
  // Not at once: tensors that feed two leaves are read by tiles that are near each other.
  const auto behind = std::make_shared<DropBehind>(cached_bytes);
  OpenSources out;
  out.reserve(catalog.files.size());
  for (const CatalogFile& file : catalog.files) {
    auto source = file.path.open_data(mode, behind);
    if (source->identity() != file.identity()) throw changed_source(file.path.text());
    out.push_back(std::move(source));
  }
  return out;
}

void check_unchanged(const OpenSources& sources) {
  for (const auto& source : sources) source->check_unchanged();
}

void check_unchanged(const Catalog& catalog) {
  for (const CatalogFile& file : catalog.files) {
    const auto entry = file.path.find();
    if (!entry || entry->identity != file.identity()) throw changed_source(file.path.text());
  }
}

std::vector<IoChoice> choices_of(const OpenSources& sources) {
  std::vector<IoChoice> out;
  for (const auto& source : sources) {
    if (const auto choice = source->choice()) count_choice(out, choice->mode, choice->why);
  }
  return out;
}

}  // namespace hfshard
