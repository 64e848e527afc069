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

#include "bytes/hf_cache.h"

namespace hfshard {

/// How to wait for another process that downloads the same bytes.
struct CacheWait {
  std::chrono::milliseconds longest = std::chrono::hours(24);
  /// Called at every look at the lock; what it throws ends the waiting. May be empty.
  std::function<void(const std::string& lock_path, std::chrono::milliseconds waited)> waiting;
};

/// One file on its way into the cache. Given up, and nothing left of it, if it is not finished.
class CacheFileWriter {
 public:
  ~CacheFileWriter();
  CacheFileWriter(CacheFileWriter&&) noexcept;
  CacheFileWriter& operator=(CacheFileWriter&&) noexcept;
  /// In any order, each byte once. What comes front to back is read once, the rest again by
  /// `finish`. Threads: concurrently for disjoint ranges. Throws: corrupt (beyond the file's end),
  /// io.
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Compares size and digest with what the Hub has listed, and makes the file visible.
  /// Throws: corrupt (bytes are missing, or are others), conflict, unsupported (no symbolic links),
  /// io.
  void finish();

 private:
  friend class CacheWriter;
  struct State;
  explicit CacheFileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Fills the snapshot of one commit as huggingface_hub does, so that its readers, and those who
/// write at the same time, find what they expect. Const and thread-safe; of one process, no two
/// threads may begin files with the same digest at the same time.
class CacheWriter {
 public:
  /// Makes nothing yet. `root` is the cache of all repositories. Throws: bad_input (names that are
  /// none).
  CacheWriter(std::string root, std::string_view repo, std::string commit, CacheWait wait = {});
  const CachedRepo& repo() const noexcept { return repo_; }
  std::string snapshot_path() const { return repo_.snapshot_path(commit_); }

  /// Begins a file; nothing if its bytes were there, or came from another process meanwhile: it is
  /// visible then. What is there in another size is replaced.
  /// Throws: bad_input (a path or digest that is none), limit (no space, or the wait was too long),
  /// conflict, unsupported, io, what `waiting` throws.
  std::optional<CacheFileWriter> begin(const TreeFile& file) const;
  /// Whether `begin` would find the bytes. Throws: io.
  bool has(const TreeFile& file) const;
  /// Notes all files of the commit, by which readers know whether a snapshot is whole.
  /// Throws: conflict, io.
  void write_tree(const std::vector<TreeFile>& tree) const;
  /// Notes that a revision is at this commit; nothing for a commit. The snapshot must be there:
  /// without it the Hub's own tools take the cache to be damaged. Throws: bad_input (a revision
  /// that is none), conflict, io.
  void write_ref(std::string_view revision) const;

 private:
  std::string root_;
  CachedRepo repo_;
  std::string locks_;
  std::string commit_;
  CacheWait wait_;
};

/// The name of a file's bytes in the cache: sha256 of large files, git's object id of others.
const std::string& cache_etag(const TreeFile& file) noexcept;

}  // namespace hfshard
