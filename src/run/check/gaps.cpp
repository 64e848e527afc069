#include "run/check/gaps.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "bytes/local/files.h"
#include "bytes/local/source.h"
#include "catalog/grid.h"
#include "run/engine/stop.h"

namespace hfshard {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 16;

// The bytes of one piece.
struct Stored {
  std::uint32_t file = 0;  // number of the record
  ByteRange range;
};

// Returns the pieces in the recorded files, in the order of their bytes.
std::vector<Stored> stored_pieces(const Checkpoint& opened, const std::vector<FileRecord>& recorded,
                                  const std::string& step) {
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (const FileRecord& file : recorded)
    numbers.emplace(join_path(step, file.path), static_cast<std::uint32_t>(numbers.size()));
  std::vector<Stored> out;
  const Catalog& catalog = opened.catalog();
  for (std::uint32_t array = 0; array < catalog.tensors.size(); ++array) {
    const TensorInfo& info = catalog.tensors[array];
    if (info.is_whole()) continue;
    for_each_chunk(chunk_counts(info.shape, catalog.cuts[info.cut].grid.chunk),
                   [&](const Shape& piece) {
                     const auto place = opened.find_piece(array, piece);
                     if (!place || !place->range) return true;
                     if (const auto file = numbers.find(place->file); file != numbers.end())
                       out.push_back({file->second, *place->range});
                     return true;
                   });
  }
  std::ranges::sort(out, [](const Stored& a, const Stored& b) {
    return std::tie(a.file, a.range.begin) < std::tie(b.file, b.range.begin);
  });
  return out;
}

// Returns the first byte of a range that isn't 0.
std::optional<std::uint64_t> first_nonzero(const SourceFile& file, const ByteRange& range,
                                           std::vector<std::byte>& buffer,
                                           const RunOptions& options) {
  for (std::uint64_t at = range.begin; at < range.end; at += buffer.size()) {
    check_stop(options);
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), range.end - at));
    file.read_at(at, part);
    const auto found =
        std::ranges::find_if(part, [](std::byte each) { return each != std::byte{}; });
    if (found != part.end()) return at + static_cast<std::uint64_t>(found - part.begin());
  }
  return std::nullopt;
}

// Returns the same for all bytes of a file outside of its pieces.
std::optional<std::uint64_t> first_in_gaps(const SourceFile& file, std::span<const Stored> pieces,
                                           std::vector<std::byte>& buffer,
                                           const RunOptions& options) {
  std::uint64_t end = 0;
  for (const Stored& piece : pieces) {
    if (const auto found = first_nonzero(file, {end, piece.range.begin}, buffer, options))
      return found;
    end = std::max(end, piece.range.end);
  }
  return first_nonzero(file, {end, file.size_bytes()}, buffer, options);
}

}  // namespace

void verify_gaps(const Checkpoint& opened, const std::vector<FileRecord>& recorded,
                 const std::string& step, const RunOptions& options, VerifyResult& result) {
  const std::vector<Stored> pieces = stored_pieces(opened, recorded, step);
  std::vector<std::byte> buffer(kReadBytes);
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end = std::find_if(begin, pieces.end(),
                                  [&](const Stored& each) { return each.file != begin->file; });
    const FileRecord& record = recorded[begin->file];
    const std::string path = join_path(step, record.path);
    const std::span<const Stored> in_file(begin, end);
    begin = end;
    const auto info = file_info(path);
    if (!info || info->stamp.size_bytes != record.size_bytes) continue;
    const auto found = first_in_gaps(FileSource(path), in_file, buffer, options);
    if (!found) continue;
    result.differences.push_back(
        {"", "", "", fmt::format("byte {} belongs to no array and isn't 0 ({})", *found, path),
         path});
  }
}

}  // namespace hfshard
