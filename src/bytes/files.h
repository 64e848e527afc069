#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/source.h"
#include "bytes/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

enum class FileKind : std::uint8_t {
  regular,
  directory,
  dangling,  ///< a link that leads nowhere; only where a store says so
  other,
};

/// What a path leads to, links followed.
struct FileInfo {
  FileKind kind = FileKind::other;
  FileStamp stamp;
};

/// Nothing if the path leads nowhere (a dangling link too). Throws: io.
std::optional<FileInfo> file_info(const std::string& path);
/// True if a path leads to a directory, links followed. Throws: io.
bool is_directory(const std::string& path);
/// True if a name is there, be it a dangling link. Throws: io.
bool exists(const std::string& path);
/// True if the name itself is a symbolic link. Throws: io.
bool is_symlink(const std::string& path);
/// Names in a directory, sorted bytewise, without `.` and `..`. Throws: not_found, io.
std::vector<std::string> list_directory(const std::string& path);
/// The same for an open directory; `path` is for errors.
std::vector<std::string> list_directory_at(int directory, const std::string& path);
/// What to do about a path that begins with `~`, which only shells know, and only without quotes;
/// empty for any other.
std::string tilde_hint(std::string_view path);
/// `directory/name`, with one separator.
std::string join_path(std::string_view directory, std::string_view name);
/// The directory part: `a` for `a/b`, `.` for `b`, `/` for `/b`; trailing slashes are ignored.
std::string parent_path(std::string_view path);

/// Creates a directory and missing parents; one that exists is fine. Throws: conflict (a file is
/// in the way), io.
void make_directories(const std::string& path, mode_t mode = sys::kDirectoryMode);
/// Makes the names in a directory durable. Throws: io.
void fsync_directory(const std::string& path);
/// The same for all directories of a tree, those below first. Throws: io.
void sync_tree(const std::string& directory);
/// Renames, replacing a file or an empty directory at `to`. Not durable before fsync_directory of
/// both parents. Throws: io.
void rename_path(const std::string& from, const std::string& to);
/// Same, but throws conflict if `to` exists. Atomic where the file system can.
void rename_noreplace(const std::string& from, const std::string& to);
/// Swaps two existing names. Returns false where the file system cannot do it at once, and three
/// renames (through `<a>.swap`) were made instead. Throws: io.
bool rename_exchange(const std::string& a, const std::string& b);
/// Removes a file, link or directory tree; one that is not there is fine. Links are removed, not
/// followed. Throws: io.
void remove_tree(const std::string& path);
/// The same for a name in an open directory, whatever its path leads to by now; `path` is for
/// errors.
void remove_tree_at(int directory, const std::string& name, const std::string& path);
/// Removes a directory that holds nothing; one that holds something stays, one that is not there is
/// fine. Throws: io.
void remove_empty_directory(const std::string& path);
/// Space that may still be written at `path` or, if it is not there, at its nearest parent.
/// Throws: io.
std::uint64_t free_bytes(const std::string& path);

}  // namespace hfshard
