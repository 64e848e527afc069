#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bytes/local/output.h"
#include "catalog/piece.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {

/// The data files of a run. A file is opened on first use, and closed when everything before its
/// end is durable. `cached_bytes` of the written data stay in the page cache, and as much can wait
/// for the disk.
class DataFiles {
 public:
  using Leading = std::function<void(std::uint32_t file, const ByteSink& sink)>;
  /// `root` is the directory for relative names. `leading` streams the bytes at the front of a
  /// file, which are the same each time.
  DataFiles(const Placements& names, std::string root, Leading leading, IoMode mode,
            std::uint64_t cached_bytes)
      : names_(names),
        root_(std::move(root)),
        leading_(std::move(leading)),
        mode_(mode),
        most_cached_(cached_bytes) {}
  /// Writes a region of one file. Threads: concurrently for disjoint regions. Throws: io.
  void write(std::uint32_t file, std::uint64_t offset_bytes, std::span<const std::byte> region);
  /// Reports that a range of one file was written, in plan order. If too much accumulated, waits
  /// for the disk and drops it from the cache. One thread at a time. Throws: io.
  void written(std::uint32_t file, ByteRange range);
  /// Makes files [first, last] and their names durable. All but the last are complete, and are
  /// closed. Throws: io.
  void sync(std::uint32_t first, std::uint32_t last);
  /// Returns how the files opened so far are written.
  std::vector<IoChoice> choices() const;

 private:
  OutputFile& open(std::uint32_t file);

  const Placements& names_;
  std::string root_;
  Leading leading_;
  IoMode mode_;
  std::uint64_t most_cached_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<OutputFile>> open_;
  std::vector<IoChoice> choices_;
  bool new_names_ = false;
  struct Piece {
    std::uint32_t file = 0;
    ByteRange range;
  };
  std::deque<Piece> cached_;        // last written; for written() only
  std::uint64_t cached_bytes_ = 0;  // their sum
};

}  // namespace hfshard
