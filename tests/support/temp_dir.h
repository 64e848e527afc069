#pragma once

#include <string>
#include <string_view>

namespace hfshard {

/// A new directory below the system's temporary one, removed with its contents at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const noexcept { return path_; }
  /// Returns a path below it, and creates nothing.
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

/// Reads a whole file. Throws std::runtime_error if it can't be read.
std::string read_text(const std::string& path);
/// Writes a whole file, and makes missing parent directories.
void write_text(const std::string& path, std::string_view text);
/// Sets the time of a file's content a second later.
void set_later(const std::string& path);

}  // namespace hfshard
