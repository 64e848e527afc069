#pragma once

#include <string>
#include <string_view>

namespace hfshard {

/// A fresh directory below the system's temporary one, removed with all it holds at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const noexcept { return path_; }
  /// A path below it; nothing is created.
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

/// Whole file. The test process throws std::runtime_error if it cannot be read.
std::string read_text(const std::string& path);
/// Writes a whole file, making missing parent directories.
void write_text(const std::string& path, std::string_view text);

}  // namespace hfshard
