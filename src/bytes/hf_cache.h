#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hfshard {

// The cache of downloads that huggingface_hub keeps, read. Nothing here looks at the environment,
// asks the network or changes a file; another process may change the cache at any time.
//
//   <root>/models--org--name/refs/<revision>            40 bytes: a commit
//                            snapshots/<commit>/<path>  links to ../../blobs/<etag>, or files
//                            trees/<commit>.json        which files the commit has
//                            .no_exist/<commit>/<path>  known not to be there
// Source: huggingface_hub, file_download.py, _tree_cache.py, docs/source/en/guides/manage-cache.md.

/// `models--org--name`.
std::string cache_folder_name(std::string_view repo);
/// The repository that a folder of that name is for; nothing if the name is none of that form.
std::optional<std::string> repo_of_cache_folder(std::string_view folder_name);

/// A place of the cache that a person has named by its path.
struct CachePlace {
  std::string repo;
  std::string folder;  ///< as typed: <root>/models--org--name
  std::string commit;  ///< of a snapshot; empty where the folder itself was named
  std::string path;    ///< below the snapshot
  friend bool operator==(const CachePlace&, const CachePlace&) = default;
};
/// Nothing if the path is neither a folder of a repository with snapshots nor within a snapshot.
/// Throws: io.
std::optional<CachePlace> recognise_cache_place(const std::string& path);

struct CachedFile {
  std::string path;  ///< in the repository
  std::uint64_t size_bytes = 0;
  friend bool operator==(const CachedFile&, const CachedFile&) = default;
};

/// A file of a commit, as the Hub has listed it.
struct TreeFile {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::string blob_id;   ///< git's; of a large file that of its pointer
  std::string sha256;    ///< of a large file; else empty
  std::string xet_hash;  ///< of a file in Xet storage; else empty
  friend bool operator==(const TreeFile&, const TreeFile&) = default;
};

/// The folder of one repository, `<root>/models--org--name`; it need not exist. Const and
/// thread-safe.
class CachedRepo {
 public:
  explicit CachedRepo(std::string folder) : folder_(std::move(folder)) {}
  CachedRepo(const std::string& root, std::string_view repo);
  const std::string& folder() const noexcept { return folder_; }

  // Where things are; nothing need be there.
  std::string ref_path(std::string_view revision) const;
  std::string snapshot_path(std::string_view commit) const;
  std::string tree_path(std::string_view commit) const;
  std::string blob_path(std::string_view etag) const;

  /// The commit that a revision was at when it was last asked for; a commit is itself. Nothing if
  /// the revision was never asked for. Throws: corrupt (the reference holds something else), io.
  std::optional<std::string> commit_of(std::string_view revision) const;
  /// Revisions that have been asked for, sorted. Throws: io.
  std::vector<std::string> revisions() const;
  /// Commits that have a snapshot, sorted. Throws: io.
  std::vector<std::string> commits() const;
  bool has_snapshot(std::string_view commit) const;
  /// What is there of a snapshot, links followed, sorted by path. A link that leads nowhere is not
  /// there. Throws: io.
  std::vector<CachedFile> files(std::string_view commit) const;
  /// All that the commit has, sorted by path. Nothing if it was never listed, or if the listing is
  /// none that this version reads. Throws: io.
  std::optional<std::vector<TreeFile>> tree(std::string_view commit) const;
  /// Whether the Hub has once said that the commit has no such file. Throws: io.
  bool known_absent(std::string_view commit, std::string_view path) const;

 private:
  std::string folder_;
};

/// Names of the files of a listing that a snapshot lacks or has in another size.
std::vector<std::string> missing_files(const std::vector<TreeFile>& tree,
                                       const std::vector<CachedFile>& files);

}  // namespace hfshard
