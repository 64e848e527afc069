#include "bytes/hub/hf_cache.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/hub/hub_name.h"
#include "bytes/local/files.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {
namespace {

constexpr std::string_view kModels = "models--";
constexpr std::string_view kSeparator = "--";
constexpr std::int64_t kTreeVersion = 1;
constexpr std::uint64_t kMaxRefBytes = 4096;

std::string_view last_part(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Calls `found(path, info)` for every name below a directory that isn't a directory, in no order.
// A broken link has no info. Doesn't follow links to directories. The cache doesn't have any, and a
// link could form a circle.
template <typename Found>
void walk(const std::string& directory, const std::string& below, const Found& found) {
  if (!is_directory(directory)) return;
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    const auto info = file_info(path);
    if (info && info->kind == FileKind::directory) {
      if (!is_symlink(path)) walk(path, join_path(below, name), found);
    } else {
      found(join_path(below, name), info);
    }
  }
}

TreeFile tree_file(const std::string& path, const Json& entry) {
  TreeFile out{path, entry.at("size").as_uint(), entry.at("blob_id").as_string(), "", ""};
  if (const Json* sha = entry.find("lfs_sha256"); sha != nullptr && !sha->is_null()) {
    out.sha256 = sha->as_string();
  }
  if (const Json* xet = entry.find("xet_hash"); xet != nullptr && !xet->is_null()) {
    out.xet_hash = xet->as_string();
    if (!is_sha256(out.xet_hash)) throw Error(ErrorCode::bad_input, "not a Xet hash");
  }
  return out;
}

}  // namespace

std::string cache_folder_name(std::string_view repo) {
  std::string out(kModels);
  for (const char c : repo) {
    if (c == '/') {
      out += kSeparator;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::optional<std::string> repo_of_cache_folder(std::string_view folder_name) {
  if (!folder_name.starts_with(kModels)) return std::nullopt;
  std::string repo(folder_name.substr(kModels.size()));
  if (const auto at = repo.find(kSeparator); at != std::string::npos) {
    repo.replace(at, kSeparator.size(), "/");
  }
  if (repo_id_problem(repo)) return std::nullopt;
  return repo;
}

std::optional<CachePlace> recognise_cache_place(const std::string& path) {
  std::string_view rest = path;
  while (rest.size() > 1 && rest.back() == '/') rest.remove_suffix(1);
  if (const auto repo = repo_of_cache_folder(last_part(rest))) {
    if (!is_directory(join_path(rest, "snapshots"))) return std::nullopt;
    return CachePlace{*repo, std::string(rest), "", ""};
  }
  // Searches from the end, to find a cache below a folder with such a name.
  for (auto at = rest.rfind("/snapshots/"); at != std::string_view::npos && at > 0;
       at = rest.rfind("/snapshots/", at - 1)) {
    const std::string_view folder = rest.substr(0, at);
    const std::string_view below = rest.substr(at + std::string_view("/snapshots/").size());
    const std::string_view commit = below.substr(0, below.find('/'));
    const auto repo = repo_of_cache_folder(last_part(folder));
    if (!repo || !is_commit(commit) || !is_directory(std::string(folder))) continue;
    const auto inner = below.size() == commit.size() ? "" : below.substr(commit.size() + 1);
    return CachePlace{*repo, std::string(folder), std::string(commit), std::string(inner)};
  }
  return std::nullopt;
}

CachedRepo::CachedRepo(const std::string& root, std::string_view repo)
    : folder_(join_path(root, cache_folder_name(repo))) {}

std::string CachedRepo::ref_path(std::string_view revision) const {
  return fmt::format("{}/refs/{}", folder_, revision);
}
std::string CachedRepo::snapshot_path(std::string_view commit) const {
  return fmt::format("{}/snapshots/{}", folder_, commit);
}
std::string CachedRepo::tree_path(std::string_view commit) const {
  return fmt::format("{}/trees/{}.json", folder_, commit);
}
std::string CachedRepo::blob_path(std::string_view etag) const {
  return fmt::format("{}/blobs/{}", folder_, etag);
}

std::optional<std::string> CachedRepo::commit_of(std::string_view revision) const {
  if (is_commit(revision)) return std::string(revision);
  if (revision_problem(revision)) return std::nullopt;
  const std::string path = ref_path(revision);
  const auto info = file_info(path);
  if (!info || info->kind != FileKind::regular) return std::nullopt;
  const std::string text = read_file(path, kMaxRefBytes);
  // Some writers end the line. The Python client then finds nothing, but hfshard reads it.
  const std::string_view commit = trimmed(text);
  if (!is_commit(commit)) {
    throw Error(ErrorCode::corrupt,
                fmt::format("a reference in the cache holds {}, which isn't a commit",
                            quote(commit.substr(0, 64))))
        .in_file(path)
        .hint("remove this file, or pass a commit with --revision");
  }
  return std::string(commit);
}

std::vector<std::string> CachedRepo::revisions() const {
  std::vector<std::string> out;
  walk(join_path(folder_, "refs"), "", [&](const std::string& name, const auto& info) {
    // A killed writer leaves files that end with .tmp.
    const bool is_file = info && info->kind == FileKind::regular;
    if (is_file && !name.ends_with(".tmp")) out.push_back(name);
  });
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> CachedRepo::commits() const {
  const std::string snapshots = join_path(folder_, "snapshots");
  if (!is_directory(snapshots)) return {};
  std::vector<std::string> out = list_directory(snapshots);
  std::erase_if(out, [&](const std::string& name) { return !has_snapshot(name); });
  return out;
}

bool CachedRepo::has_snapshot(std::string_view commit) const {
  return is_commit(commit) && is_directory(snapshot_path(commit));
}

std::vector<CachedFile> CachedRepo::files(std::string_view commit) const {
  std::vector<CachedFile> out;
  if (!has_snapshot(commit)) return out;
  walk(snapshot_path(commit), "", [&](const std::string& path, const auto& info) {
    if (info && info->kind == FileKind::regular) out.push_back({path, info->stamp.size_bytes});
  });
  std::ranges::sort(out, {}, &CachedFile::path);
  return out;
}

std::vector<BrokenLink> CachedRepo::broken_links(std::string_view commit) const {
  std::vector<BrokenLink> out;
  if (!has_snapshot(commit)) return out;
  const std::string snapshot = snapshot_path(commit);
  walk(snapshot, "", [&](const std::string& path, const auto& info) {
    const std::string target = info ? std::string() : link_target(join_path(snapshot, path));
    if (!target.empty()) out.push_back({path, target});
  });
  std::ranges::sort(out, {}, &BrokenLink::path);
  return out;
}

std::optional<std::vector<TreeFile>> CachedRepo::tree(std::string_view commit) const {
  if (!is_commit(commit)) return std::nullopt;
  const std::string path = tree_path(commit);
  const auto info = file_info(path);
  if (!info || info->kind != FileKind::regular) return std::nullopt;
  const std::string text = read_file(path);
  try {
    const Json json = parse_json(text, path);
    const Json* version = json.find("format_version");
    if (version == nullptr || *version != Json(kTreeVersion)) return std::nullopt;
    std::vector<TreeFile> out;
    for (const auto& [name, entry] : json.at("files").as_object()) {
      if (repo_path_problem(name)) return std::nullopt;
      out.push_back(tree_file(name, entry));
    }
    return out;
  } catch (const Error&) {  // a damaged one is ignored: the Hub is asked
    return std::nullopt;
  }
}

bool CachedRepo::known_absent(std::string_view commit, std::string_view path) const {
  if (!is_commit(commit) || repo_path_problem(path)) return false;
  return exists(fmt::format("{}/.no_exist/{}/{}", folder_, commit, path));
}

std::vector<std::string> missing_files(const std::vector<TreeFile>& tree,
                                       const std::vector<CachedFile>& files) {
  std::map<std::string_view, std::uint64_t> there;
  for (const CachedFile& file : files) there.emplace(file.path, file.size_bytes);
  std::vector<std::string> out;
  for (const TreeFile& file : tree) {
    const auto found = there.find(file.path);
    if (found == there.end() || found->second != file.size_bytes) out.push_back(file.path);
  }
  return out;
}

}  // namespace hfshard
