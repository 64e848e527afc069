#include "service/bring.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/hub/hf_cache_writer.h"
#include "bytes/hub/hub_file.h"
#include "bytes/hub/hub_name.h"
#include "bytes/hub/hub_reads.h"
#include "bytes/local/files.h"

namespace hfshard {
namespace {

// Limits of the pieces in flight. Each connection gets one piece, whose size depends on the memory.
constexpr std::uint64_t kMostPieceBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastPieceBytes = std::uint64_t{1} << 20;
constexpr std::size_t kWindowPieces = 64;
// Memory of a downloading process: itself, one thread, and the buffers of libcurl and OpenSSL.
constexpr std::uint64_t kOwnBytes = std::uint64_t{48} << 20;
constexpr std::chrono::seconds kTellEvery{10};

// Cached pieces skip this check and the clock.
void check_not_stopped(const HubOptions& hub) {
  if (hub.stop != nullptr && hub.stop->load()) throw Error(ErrorCode::cancelled, "interrupted");
}

// While it lives, tells a Reporter how many bytes are done and how many are left.
class BringReport {
 public:
  BringReport(Reporter* reporter, const HubTraffic& traffic) : reporter_(reporter) {
    if (reporter_ == nullptr) return;
    reporter_->linked([&traffic, before = traffic.data_bytes.load()] {
      return traffic.data_bytes.load() - before;
    });
  }
  ~BringReport() {
    if (reporter_ != nullptr) reporter_->linked({});
  }
  BringReport(const BringReport&) = delete;
  BringReport& operator=(const BringReport&) = delete;
  void started(std::uint64_t total_bytes, std::uint64_t there_bytes) const {
    if (reporter_ != nullptr) reporter_->started(total_bytes, there_bytes);
  }
  void advanced(std::uint64_t bytes) const {
    if (reporter_ != nullptr) reporter_->advanced(bytes);
  }

 private:
  Reporter* reporter_;
};

// Downloads ranges of files into the cache, in the order of the requests.
class Download {
 public:
  Download(HubClient& client, HubRepo repo, std::uint64_t memory_bytes, const BringReport& report)
      : client_(client),
        repo_(std::move(repo)),
        memory_bytes_(memory_bytes),
        piece_bytes_(std::clamp(memory_bytes / client.options().most_connections, kLeastPieceBytes,
                                kMostPieceBytes)),
        report_(report) {}

  // Returns false if the cache already has the file.
  bool add(const CacheWriter& writer, const TreeFile& file) {
    // Starting a file takes a lock. A second file with the same bytes would wait for it forever.
    while (open_.contains(cache_etag(file))) take_first();
    auto out = writer.begin(file);
    if (!out) return false;
    const auto target = std::make_shared<Target>(*std::move(out), file);
    open_.insert(cache_etag(file));
    const auto remote = std::make_shared<HubFile>(&client_, repo_, file);
    const std::uint64_t there = target->out.there_bytes();  // from a killed run
    report_.advanced(there);
    for (std::uint64_t at = there; at < file.size_bytes; at += piece_bytes_) {
      const std::uint64_t length = std::min(piece_bytes_, file.size_bytes - at);
      while (pieces_.size() >= kWindowPieces ||
             (!pieces_.empty() && window_bytes_ + length > memory_bytes_)) {
        take_first();
      }
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

 private:
  struct Target {
    Target(CacheFileWriter writer, TreeFile wanted)
        : out(std::move(writer)), file(std::move(wanted)) {}
    CacheFileWriter out;
    TreeFile file;
    std::uint64_t pieces = 0;  // in flight
    bool all_asked = false;
  };
  struct Piece {
    std::shared_ptr<Target> target;
    std::uint64_t offset_bytes;
    std::vector<std::byte> bytes;
    HubRead read;  // ends before its memory is freed
  };

  void take_first() {
    const Piece& piece = pieces_.front();
    check_not_stopped(client_.options());
    piece.read.wait();
    Target& target = *piece.target;
    target.out.write_at(piece.offset_bytes, piece.bytes);
    if (--target.pieces == 0 && target.all_asked) end(target);
    window_bytes_ -= piece.bytes.size();
    report_.advanced(piece.bytes.size());
    pieces_.pop_front();
  }

  void end(Target& target) {
    target.out.finish();
    open_.erase(cache_etag(target.file));
    if (!client_.options().note) return;
    client_.options().note(fmt::format("fetched {} ({})", printable(target.file.path),
                                       human_bytes(target.file.size_bytes)));
  }

  HubClient& client_;
  HubRepo repo_;
  std::uint64_t memory_bytes_;
  std::uint64_t piece_bytes_;
  const BringReport& report_;
  std::deque<Piece> pieces_;
  std::uint64_t window_bytes_ = 0;
  std::set<std::string> open_;  // digests of incomplete files
};

CacheWait polite_wait(const HubOptions& hub) {
  CacheWait wait;
  auto told = std::make_shared<std::chrono::milliseconds>(0);
  wait.waiting = [&hub, told](const std::string& path, std::chrono::milliseconds waited) {
    check_not_stopped(hub);
    if (waited < *told) return;
    *told = waited + kTellEvery;
    if (hub.note) hub.note("waiting for another download: " + printable(path));
  };
  return wait;
}

// The client's tools call a cached repository damaged if it has no snapshot. Without a listing,
// they take an interrupted download for a complete one. So hfshard writes the listing with the
// first file.
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

std::uint64_t bring_memory_bytes(std::uint64_t max_memory_bytes) {
  const std::uint64_t left = max_memory_bytes - std::min(max_memory_bytes, kOwnBytes);
  return std::clamp(left, kLeastPieceBytes, BringOptions().memory_bytes);
}

void check_cache_space(const std::string& root, std::uint64_t needed, std::uint64_t free) {
  if (free >= needed) return;
  throw Error(ErrorCode::limit, fmt::format("the download needs {}, and the cache has {} free",
                                            human_bytes(needed), human_bytes(free)))
      .in_file(root)
      .hint(
          "free some space, set HF_HUB_CACHE to another directory, or pass --include to fetch some "
          "of the files");
}

FetchReport bring_files(HubClient& client, const HubRepo& repo, const std::string& revision,
                        const std::vector<TreeFile>& tree, const std::vector<TreeFile>& files,
                        const BringOptions& options) {
  const std::string& root = client.options().cache_directory;
  const CacheWriter writer(root, repo.name, repo.commit, polite_wait(client.options()));
  FetchReport out{repo.name, repo.commit, writer.snapshot_path(), files.size(), 0, 0, 0};
  std::uint64_t lacking = 0;
  std::vector<bool> lacks;
  for (const TreeFile& file : files) {
    out.bytes += file.size_bytes;
    lacks.push_back(!writer.has(file));
    if (lacks.back()) lacking += file.size_bytes;
  }
  check_cache_space(root, lacking, free_bytes(root));
  const BringReport report(options.reporter, client.traffic());
  if (lacking > 0) report.started(out.bytes, out.bytes - lacking);
  Download download(client, repo, options.memory_bytes, report);
  TreeNote note(writer, tree);
  for (std::size_t k = 0; k < files.size(); ++k) {
    const TreeFile& file = files[k];
    check_not_stopped(client.options());
    const bool fetched = download.add(writer, file);
    note.note(repo.commit);
    if (!fetched) {  // cached by another file with the same bytes, or by another process
      if (lacks[k]) report.advanced(file.size_bytes);
      continue;
    }
    ++out.fetched_files;
    out.fetched_bytes += file.size_bytes;
  }
  download.drain();
  note.note(repo.commit);
  writer.write_ref(revision.empty() ? kDefaultRevision : revision);
  return out;
}

}  // namespace hfshard
