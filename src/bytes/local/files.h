#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/local/source.h"
#include "bytes/local/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

enum class FileKind : std::uint8_t {
  regular,
  directory,
  dangling,  ///< a broken link, if a store tells
  other,
};

/// The file at a path, with links followed.
struct FileInfo {
  FileKind kind = FileKind::other;
  FileStamp stamp;
  InodeState state{};
};

/// Returns the file at a path. Empty if there is no file (also for a dangling link). Throws: io.
std::optional<FileInfo> file_info(const std::string& path);
/// Returns whether a path leads to a directory, with links followed. Throws: io.
bool is_directory(const std::string& path);
/// Returns whether a name exists, even as a dangling link. Throws: io.
bool exists(const std::string& path);
/// Returns whether the name itself is a symbolic link. Throws: io.
bool is_symlink(const std::string& path);
/// Returns the path in a symbolic link. Empty for other files, and if the link can't be read.
std::string link_target(const std::string& path);
/// Returns the hint for a link to a missing file.
std::string broken_link_hint(const std::string& path);
/// Returns the names in a directory, sorted bytewise, without `.` and `..`. Throws: not_found, io.
std::vector<std::string> list_directory(const std::string& path);
/// Lists an open directory. `path` is for errors.
std::vector<std::string> list_directory_at(int directory, const std::string& path);
/// Returns a hint for a path that begins with `~`, which only shells expand, and only without
/// quotes. Empty for other paths.
std::string tilde_hint(std::string_view path);
/// Returns `directory/name`, with one separator.
std::string join_path(std::string_view directory, std::string_view name);
/// Returns the directory part: `a` for `a/b`, `.` for `b`, `/` for `/b`. Ignores trailing slashes.
std::string parent_path(std::string_view path);
/// Returns the last part of a path, without trailing slashes.
std::string entry_name(std::string_view path);

/// Creates a directory and missing parents. Succeeds if it exists. Throws: conflict (a file is in
/// the way), io.
void make_directories(const std::string& path, mode_t mode = sys::kDirectoryMode);
/// Makes the names in a directory durable. Throws: io.
void fsync_directory(const std::string& path);
/// Makes the names in all directories of a tree durable, bottom-up. Throws: io.
void sync_tree(const std::string& directory);
/// Renames, replacing a file or an empty directory at `to`. It is durable after fsync_directory of
/// both parents. Throws: io.
void rename_path(const std::string& from, const std::string& to);
/// Renames, but throws conflict if `to` exists. Atomic if the file system supports it.
void rename_noreplace(const std::string& from, const std::string& to);
/// Swaps two existing names. Returns false if the file system can't swap them at once. Then it
/// makes three renames (through `<a>.swap`). Throws: io.
bool rename_exchange(const std::string& a, const std::string& b);
/// Removes a file, link or directory tree. Succeeds if it doesn't exist. Removes links without
/// following them. Throws: io.
void remove_tree(const std::string& path);
/// Removes a name in an open directory, even if its path leads elsewhere by now. `path` is for
/// errors.
void remove_tree_at(int directory, const std::string& name, const std::string& path);
/// Removes an empty directory. Succeeds if it has entries, and keeps it, or if it doesn't exist.
/// Throws: io.
void remove_empty_directory(const std::string& path);
/// Returns the space that can be written at `path` or, if it doesn't exist, at its nearest parent.
/// Throws: io.
std::uint64_t free_bytes(const std::string& path);

}  // namespace hfshard
