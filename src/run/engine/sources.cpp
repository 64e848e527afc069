#include "run/engine/sources.h"

#include <algorithm>
#include <utility>

#include "bytes/local/drop_behind.h"
#include "bytes/local/storage.h"

#include "hfshard/error.h"

namespace hfshard {

OpenSources open_sources(const Catalog& catalog, IoMode mode, std::uint64_t cached_bytes) {
  // Drops pages later, since nearby tiles read tensors that feed two leaves.
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

std::vector<bool> far_files(const Catalog& catalog) {
  std::vector<bool> out;
  out.reserve(catalog.files.size());
  for (const CatalogFile& file : catalog.files) out.push_back(file.path.is_far());
  return out;
}

std::optional<std::span<const std::byte>> SourceReads::take(const FileRange& range) const {
  if (ahead_ == nullptr || !files_[range.file]->is_far()) return std::nullopt;
  return ahead_->take(range);
}

SourceReads::Bytes SourceReads::view(const FileRange& range, std::span<std::byte> scratch) const {
  if (const auto bytes = take(range)) return {View(*bytes), true};
  const std::uint64_t length = range.range.end - range.range.begin;
  return {files_[range.file]->view(range.range.begin, length, scratch), false};
}

void SourceReads::release(const FileRange& range, Bytes bytes) const {
  if (bytes.ahead) return ahead_->done(range);
  const std::uint64_t length = range.range.end - range.range.begin;
  files_[range.file]->check_used(bytes.view, range.range.begin, length);
  bytes = {};
  files_[range.file]->done_with(range.range.begin, length);
}

void SourceReads::copy(const FileRange& range, std::span<std::byte> out) const {
  const std::uint64_t length = range.range.end - range.range.begin;
  if (const auto bytes = take(range)) {
    std::ranges::copy(*bytes, out.begin());
    return ahead_->done(range);
  }
  files_[range.file]->read_at(range.range.begin, out.first(length));
  files_[range.file]->done_with(range.range.begin, length);
}

void check_unchanged(const OpenSources& sources) {
  for (const auto& source : sources) source->check_unchanged();
}

FileIdentity unchanged_identity(const CatalogFile& file) {
  auto entry = file.path.find();
  if (!entry || entry->identity != file.identity()) throw changed_source(file.path.text());
  return std::move(entry->identity);
}

void check_unchanged(const std::vector<CatalogFile>& files) {
  for (const CatalogFile& file : files) (void)unchanged_identity(file);
}

std::vector<IoChoice> choices_of(const OpenSources& sources) {
  std::vector<IoChoice> out;
  for (const auto& source : sources) {
    if (const auto choice = source->choice()) count_choice(out, choice->mode, choice->why);
  }
  return out;
}

}  // namespace hfshard
