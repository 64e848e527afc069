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

#include "bytes/output.h"
#include "catalog/piece.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {

/// The data files of a run: opened on first use, closed when everything before them is durable. Of
/// what was written, `cached_bytes` stay in the page cache, and as much may wait for the
/// disk.
class DataFiles {
 public:
  using Leading = std::function<void(std::uint32_t file, const ByteSink& sink)>;
  /// `root`: the directory that the names are relative to; `leading`: streams the bytes at the
  /// front of a file, the same each time.
  DataFiles(const Placements& names, std::string root, Leading leading, IoMode mode,
            std::uint64_t cached_bytes)
      : names_(names),
        root_(std::move(root)),
        leading_(std::move(leading)),
        mode_(mode),
        most_cached_(cached_bytes) {}
  /// Writes a region of one file. Concurrently for disjoint ones. Throws: io.
  void write(std::uint32_t file, std::uint64_t offset_bytes, std::span<const std::byte> region);
  /// A range of one file was written; called in plan order. Waits for the disk and gives cache back
  /// where too much piled up. One thread at a time. Throws: io.
  void written(std::uint32_t file, ByteRange range);
  /// Makes files [first, last] and their names durable; all but the last are complete and are
  /// closed. Throws: io.
  void sync(std::uint32_t first, std::uint32_t last);
  /// How the files opened so far are written.
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
  std::deque<Piece> cached_;        // what was written last; of written() only
  std::uint64_t cached_bytes_ = 0;  // their sum
};

}  // namespace hfshard
