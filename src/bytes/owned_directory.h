#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes/syscalls.h"

namespace hfshard {

/// A directory that may be emptied and removed because it is ours, locked for as long as the object
/// lives. Ours is what carries the marker: a file that is made exclusively, in a directory that
/// held nothing, before anything else is written there. The marker is the lock too, against other
/// processes and other objects of this one, so that it goes last. The kernel releases the lock when
/// the process dies; the file stays.
class OwnedDirectory {
 public:
  enum class Mode { exclusive, shared };
  static constexpr const char* kMarker = "hfshard.lock";

  /// Makes the directory and missing parents, or takes over one that is empty or carries the
  /// marker. Throws: conflict (a link, a file, something without the marker; in use), io.
  static OwnedDirectory claim(const std::string& path, Mode mode);
  /// Same, but makes no directory: nothing where none is.
  static std::optional<OwnedDirectory> find(const std::string& path, Mode mode);
  /// Whether a process of this machine has it locked, as far as /proc/locks tells. Takes no lock:
  /// whoever is about to take one is not disturbed.
  static bool in_use(const std::string& path);

  const std::string& path() const noexcept { return path_; }
  /// False where the file system has no locks (some network ones): nothing is protected then.
  bool held() const noexcept { return held_; }
  /// Names in it, sorted bytewise, without the marker. Throws: io.
  std::vector<std::string> list() const;
  /// Removes what it holds under a name. Throws: io.
  void remove(const std::string& name) const;
  /// Makes the names in it durable. Throws: io.
  void sync() const;
  /// Removes the marker and the directory, which must hold nothing else. Throws: io.
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
