#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hfshard {

// Reads the download cache of huggingface_hub. Nothing here looks at the environment, asks the
// network or changes a file. Another process can change the cache at any time.
//
// Below <root>/models--org--name:
//   - refs/<revision>            40 bytes: a commit
//   - snapshots/<commit>/<path>  links to ../../blobs/<etag>, or files
//   - trees/<commit>.json        the list of the commit's files
//   - .no_exist/<commit>/<path>  known to be missing
//
// Source: huggingface_hub, file_download.py, _tree_cache.py, docs/source/en/guides/manage-cache.md.

/// Returns `models--org--name`.
std::string cache_folder_name(std::string_view repo);
/// Returns the repository of a folder with such a name. Empty for other names.
std::optional<std::string> repo_of_cache_folder(std::string_view folder_name);

/// A place in the cache that a person named by its path.
struct CachePlace {
  std::string repo;
  std::string folder;  ///< as typed: <root>/models--org--name
  std::string commit;  ///< of a snapshot, or empty
  std::string path;    ///< in the snapshot
  friend bool operator==(const CachePlace&, const CachePlace&) = default;
};
/// Returns the place for a path to a repository's folder with snapshots, or into a snapshot. Empty
/// for other paths. Throws: io.
std::optional<CachePlace> recognise_cache_place(const std::string& path);

struct CachedFile {
  std::string path;  ///< in the repository
  std::uint64_t size_bytes = 0;
  friend bool operator==(const CachedFile&, const CachedFile&) = default;
};

/// A link without a file at its end.
struct BrokenLink {
  std::string path;    ///< in the repository
  std::string target;  ///< as stored in the link
  friend bool operator==(const BrokenLink&, const BrokenLink&) = default;
};

/// A file of a commit, as listed by the Hub.
struct TreeFile {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::string blob_id;   ///< git's; a large file's pointer's
  std::string sha256;    ///< of a large file, or empty
  std::string xet_hash;  ///< if in Xet storage, or empty
  friend bool operator==(const TreeFile&, const TreeFile&) = default;
};

/// The folder of one repository, `<root>/models--org--name`, which needn't exist. Const and
/// thread-safe.
class CachedRepo {
 public:
  explicit CachedRepo(std::string folder) : folder_(std::move(folder)) {}
  CachedRepo(const std::string& root, std::string_view repo);
  const std::string& folder() const noexcept { return folder_; }

  // These return paths, which needn't exist.
  std::string ref_path(std::string_view revision) const;
  std::string snapshot_path(std::string_view commit) const;
  std::string tree_path(std::string_view commit) const;
  std::string blob_path(std::string_view etag) const;

  /// Returns the commit that a revision had when it was last requested. A commit is itself. Empty
  /// if the revision was never requested. Throws: corrupt (the reference has other contents), io.
  std::optional<std::string> commit_of(std::string_view revision) const;
  /// Returns the revisions that were requested, sorted. Throws: io.
  std::vector<std::string> revisions() const;
  /// Returns the commits that have a snapshot, sorted. Throws: io.
  std::vector<std::string> commits() const;
  bool has_snapshot(std::string_view commit) const;
  /// Returns the existing files of a snapshot, with links followed, sorted by path. Skips broken
  /// links. Throws: io.
  std::vector<CachedFile> files(std::string_view commit) const;
  /// Returns the links of a snapshot to blobs that don't exist, sorted by path. Throws: io.
  std::vector<BrokenLink> broken_links(std::string_view commit) const;
  /// Returns all files of the commit, sorted by path. Empty if it was never listed, or if hfshard
  /// can't read the listing. Throws: io.
  std::optional<std::vector<TreeFile>> tree(std::string_view commit) const;
  /// Returns whether the Hub has said that the commit lacks this file. Throws: io.
  bool known_absent(std::string_view commit, std::string_view path) const;

 private:
  std::string folder_;
};

/// Returns the names in a listing whose files a snapshot lacks or has with another size.
std::vector<std::string> missing_files(const std::vector<TreeFile>& tree,
                                       const std::vector<CachedFile>& files);

}  // namespace hfshard
