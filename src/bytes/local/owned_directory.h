#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes/local/syscalls.h"

namespace hfshard {

/// A directory that hfshard may empty and remove because it owns it, locked while the object lives.
/// It owns directories with the marker, a file that is made exclusively in an empty directory,
/// before any other file. The marker is also the lock, against other processes and other objects of
/// this one, so it is removed last. The kernel releases the lock when the process dies; the file
/// stays.
class OwnedDirectory {
 public:
  enum class Mode { exclusive, shared };
  static constexpr const char* kMarker = "hfshard.lock";

  /// Makes the directory and missing parents, or takes one that is empty or has the marker. Throws:
  /// conflict (a link, a file, a directory without the marker; in use), io.
  static OwnedDirectory claim(const std::string& path, Mode mode);
  /// Takes an existing directory. Empty if it doesn't exist.
  static std::optional<OwnedDirectory> find(const std::string& path, Mode mode);
  /// Returns whether a process on this machine has locked it, according to /proc/locks. Doesn't
  /// lock, so it never disturbs another process.
  static bool in_use(const std::string& path);

  const std::string& path() const noexcept { return path_; }
  /// Returns false if the file system has no locks (some network ones). Then nothing is protected.
  bool held() const noexcept { return held_; }
  /// Returns its names, sorted bytewise, without the marker. Throws: io.
  std::vector<std::string> list() const;
  /// Removes an entry. Throws: io.
  void remove(const std::string& name) const;
  /// Makes the names in it durable. Throws: io.
  void sync() const;
  /// Removes the marker and the directory, which must be empty otherwise. Throws: io.
  void remove_itself() const;

 private:
  enum class Taken { yes, absent, changed };

  explicit OwnedDirectory(std::string path) : path_(std::move(path)) {}
  Taken take(Mode mode);
  Taken open_marker();
  void lock(Mode mode);
  bool is_current() const;

  std::string path_;
  sys::Descriptor directory_;
  sys::Descriptor marker_;
  bool held_ = false;
};

}  // namespace hfshard
