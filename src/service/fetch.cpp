#include "hfshard/fetch.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "bytes/hf_cache_writer.h"
#include "bytes/hub_store.h"
#include "service/place.h"

namespace hfshard {
namespace {

// What is on its way at once: enough for all connections, and a bound of memory.
constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kWindowBytes = std::uint64_t{384} << 20;
constexpr std::size_t kWindowPieces = 64;
constexpr std::chrono::milliseconds kLook{10};
constexpr std::chrono::seconds kTellEvery{10};

bool matches(const std::vector<std::string>& globs, const std::string& path) {
  return std::ranges::any_of(globs, [&](const std::string& glob) {
    return glob_match(glob.ends_with('/') ? glob + "*" : glob, path);
  });
}

std::vector<TreeFile> wanted_files(const std::vector<TreeFile>& tree, const std::string& path,
                                   const FetchOptions& options) {
  std::vector<TreeFile> out;
  for (const TreeFile& file : tree) {
    if (!path.empty() && file.path != path && !file.path.starts_with(path + "/")) continue;
    if (!options.include.empty() && !matches(options.include, file.path)) continue;
    if (!matches(options.exclude, file.path)) out.push_back(file);
  }
  return out;
}

// Ranges of files on their way into the cache, in the order in which they were asked for.
class Download {
 public:
  Download(const SourceName& source, const FetchOptions& options, HubClient& client, HubRepo repo)
      : source_(source), options_(options), client_(client), repo_(std::move(repo)) {}
  ~Download() {
    std::erase_if(pieces_, [](const Piece& piece) { return piece.read == nullptr; });
    for (const Piece& piece : pieces_) client_.reads().cancel(piece.read);
    for (const Piece& piece : pieces_) piece.read->join();
  }
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  // False if the file was there.
  bool add(const CacheWriter& writer, const TreeFile& file) {
    // Who begins a file holds a lock, which another one of the same bytes would wait for.
    while (open_.contains(cache_etag(file))) take_first();
    auto out = writer.begin(file);
    if (!out) return false;
    const auto target = std::make_shared<Target>(*std::move(out), file);
    open_.insert(cache_etag(file));
    const auto remote = std::make_shared<HubFile>(&client_, repo_, file);
    for (std::uint64_t at = 0; at < file.size_bytes; at += kPieceBytes) {
      const std::uint64_t length = std::min(kPieceBytes, file.size_bytes - at);
      while (pieces_.size() >= kWindowPieces || window_bytes_ + length > kWindowBytes) take_first();
      Piece& piece = pieces_.emplace_back(Piece{target, at, std::vector<std::byte>(length), {}});
      window_bytes_ += length;
      ++target->pieces;
      piece.read = client_.reads().start(remote, at, piece.bytes);
    }
    target->all_asked = true;
    if (target->pieces == 0) end(*target);
    return true;
  }

  void drain() {
    while (!pieces_.empty()) take_first();
  }

  void check_stop() const {
    if (options_.stop == nullptr || !options_.stop->load()) return;
    throw Error(ErrorCode::cancelled, "interrupted; the files that are whole stay")
        .hint("run the same command again");
  }

 private:
  struct Target {
    Target(CacheFileWriter writer, TreeFile wanted)
        : out(std::move(writer)), file(std::move(wanted)) {}
    CacheFileWriter out;
    TreeFile file;
    std::uint64_t pieces = 0;  // on their way
    bool all_asked = false;
  };
  struct Piece {
    std::shared_ptr<Target> target;
    std::uint64_t offset_bytes;
    std::vector<std::byte> bytes;
    std::shared_ptr<HubRead> read;
  };

  void take_first() {
    const Piece& piece = pieces_.front();
    while (!piece.read->is_done()) {
      check_stop();
      std::this_thread::sleep_for(kLook);
    }
    check_stop();
    piece.read->wait();
    Target& target = *piece.target;
    target.out.write_at(piece.offset_bytes, piece.bytes);
    if (--target.pieces == 0 && target.all_asked) end(target);
    window_bytes_ -= piece.bytes.size();
    pieces_.pop_front();
  }

  void end(Target& target) {
    target.out.finish();
    open_.erase(cache_etag(target.file));
    if (!source_.hub.note) return;
    source_.hub.note(fmt::format("fetched {} ({})", printable(target.file.path),
                                 human_bytes(target.file.size_bytes)));
  }

  const SourceName& source_;
  const FetchOptions& options_;
  HubClient& client_;
  HubRepo repo_;
  std::deque<Piece> pieces_;
  std::uint64_t window_bytes_ = 0;
  std::set<std::string> open_;  // digests of files that are not whole yet
};

CacheWait polite_wait(const SourceName& source, const Download& download) {
  CacheWait wait;
  auto told = std::make_shared<std::chrono::milliseconds>(0);
  wait.waiting = [&source, &download, told](const std::string& path,
                                            std::chrono::milliseconds waited) {
    download.check_stop();
    if (waited < *told) return;
    *told = waited + kTellEvery;
    if (source.hub.note) source.hub.note("waits for another download: " + printable(path));
  };
  return wait;
}

void check_cache_space(const std::string& root, std::uint64_t bytes) {
  const std::uint64_t free = free_bytes(root);
  if (free >= bytes) return;
  throw Error(ErrorCode::limit, fmt::format("{} are to be fetched, and {} are free in the cache",
                                            human_bytes(bytes), human_bytes(free)))
      .in_file(root)
      .hint(
          "free some space, or let HF_HUB_CACHE name another directory; --include takes part of "
          "the files");
}

// Without a snapshot the client's tools take a repository of the cache to be damaged, and without
// the listing one that was interrupted to be whole: so the listing comes with the first file.
class TreeNote {
 public:
  TreeNote(const CacheWriter& writer, const std::vector<TreeFile>& tree)
      : writer_(writer), tree_(tree) {}
  void note(const std::string& commit) {
    if (done_ || !writer_.repo().has_snapshot(commit)) return;
    if (!writer_.repo().tree(commit)) writer_.write_tree(tree_);
    done_ = true;
  }

 private:
  const CacheWriter& writer_;
  const std::vector<TreeFile>& tree_;
  bool done_ = false;
};

}  // namespace

FetchReport fetch(const SourceName& source, const FetchOptions& options) {
  const HubName name = hub_name_of(source);
  const std::string& root = source.hub.cache_directory;
  if (root.empty()) throw Error(ErrorCode::usage, "there is no cache to fetch into");
  if (source.hub.offline) {
    throw Error(ErrorCode::usage, "HF_HUB_OFFLINE is set, so that nothing can be fetched");
  }
  HubClient client(source.hub);
  const HubRepo repo = resolve_revision(client, name.repo, name.revision);
  const auto known = CachedRepo(root, repo.name).tree(repo.commit);
  const std::vector<TreeFile> tree = known ? *known : list_files(client, repo);
  const std::vector<TreeFile> files = wanted_files(tree, name.path, options);
  if (files.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("no file of {} is meant", repo.name))
        .hint("--include and --exclude are globs of paths, as *.safetensors");
  }

  Download download(source, options, client, repo);
  const CacheWriter writer(root, repo.name, repo.commit, polite_wait(source, download));
  FetchReport out{repo.name, repo.commit, writer.snapshot_path(), files.size(), 0, 0, 0};
  std::uint64_t lacking = 0;
  for (const TreeFile& file : files) {
    out.bytes += file.size_bytes;
    if (!writer.has(file)) lacking += file.size_bytes;
  }
  check_cache_space(root, lacking);
  TreeNote note(writer, tree);
  for (const TreeFile& file : files) {
    download.check_stop();
    const bool fetched = download.add(writer, file);
    note.note(repo.commit);
    if (!fetched) continue;
    ++out.fetched_files;
    out.fetched_bytes += file.size_bytes;
  }
  download.drain();
  note.note(repo.commit);
  writer.write_ref(name.revision.empty() ? kDefaultRevision : name.revision);
  return out;
}

}  // namespace hfshard
