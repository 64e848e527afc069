#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/hub/hf_cache.h"

namespace hfshard {

/// How to wait for another process that downloads the same bytes.
struct CacheWait {
  std::chrono::milliseconds longest = std::chrono::hours(24);
  /// Called for each check of the lock. Its exceptions end the wait. Can be empty.
  std::function<void(const std::string& lock_path, std::chrono::milliseconds waited)> waiting;
};

/// Writes one file into the cache. Removes it unless it is finished. Continues the file of a killed
/// process.
class CacheFileWriter {
 public:
  ~CacheFileWriter();
  CacheFileWriter(CacheFileWriter&&) noexcept;
  CacheFileWriter& operator=(CacheFileWriter&&) noexcept;
  /// Returns how many bytes at the front a killed process left.
  std::uint64_t there_bytes() const noexcept;
  /// Writes bytes in any order, each once. `finish` must read bytes again unless they came front to
  /// back. Threads: concurrently for disjoint ranges. Throws: corrupt (beyond the file's end), io.
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Checks size and digest against the Hub's listing, and makes the file visible. Throws: corrupt
  /// (missing or different bytes), conflict, unsupported (no symbolic links), io.
  void finish();

 private:
  friend class CacheWriter;
  struct State;
  explicit CacheFileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Fills the snapshot of one commit as huggingface_hub does, for its readers and concurrent
/// writers. Const and thread-safe. Within a process, two threads must not begin files with the same
/// digest at the same time.
class CacheWriter {
 public:
  /// Doesn't create files yet. `root` is the cache of all repositories. Throws: bad_input (invalid
  /// names).
  CacheWriter(std::string root, std::string_view repo, std::string commit, CacheWait wait = {});
  const CachedRepo& repo() const noexcept { return repo_; }
  std::string snapshot_path() const { return repo_.snapshot_path(commit_); }

  /// Begins a file. Empty if its bytes exist, or another process added them meanwhile; then it is
  /// visible. Replaces a file of another size. Throws: bad_input (an invalid path or digest), limit
  /// (no space, or the wait was too long), conflict, unsupported, io, as `waiting`.
  std::optional<CacheFileWriter> begin(const TreeFile& file) const;
  /// Returns whether `begin` would find the bytes. Throws: io.
  bool has(const TreeFile& file) const;
  /// Records all files of the commit, so readers know whether a snapshot is complete. Throws:
  /// conflict, io.
  void write_tree(const std::vector<TreeFile>& tree) const;
  /// Records that a revision is at this commit; does nothing for a commit. The snapshot must exist,
  /// since the Hub's tools consider the cache damaged without it. Throws: bad_input (an invalid
  /// revision), conflict, io.
  void write_ref(std::string_view revision) const;

 private:
  std::string root_;
  CachedRepo repo_;
  std::string locks_;
  std::string commit_;
  CacheWait wait_;
};

/// Returns the name of a file's bytes in the cache: sha256 for large files, git's object id for
/// others.
const std::string& cache_etag(const TreeFile& file) noexcept;

}  // namespace hfshard
