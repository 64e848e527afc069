#include "bytes/hub/hub_store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/hub/content_digest.h"
#include "bytes/hub/hub_name.h"
#include "bytes/local/data_source.h"
#include "bytes/local/files.h"

namespace hfshard {
namespace {

// Nearly all headers are shorter (hub-protocol 4.6).
constexpr std::uint64_t kHeadBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kPartBytes = std::uint64_t{8} << 20;
constexpr std::size_t kHeadsAhead = 16;

// The front of a file, read in advance.
struct Head {
  std::vector<std::byte> bytes;
  HubRead read;  // must end before its memory goes
  std::mutex mutex;
  bool checked = false;
};

// Checks a whole file against the hub's listing before it is used.
void check_content(const HubFile& file, std::span<const std::byte> bytes) {
  const TreeFile& listed = file.listing();
  const std::string& wanted = listed.sha256.empty() ? listed.blob_id : listed.sha256;
  if (bytes.size() != listed.size_bytes || wanted.empty()) return;
  ContentDigest digest(listed);
  digest.update(bytes);
  if (const std::string found = digest.finish(); found != wanted) {
    throw Error(ErrorCode::corrupt,
                fmt::format("the {} of the received bytes is {}, and the Hub lists {}",
                            digest.name(), found, printable(wanted)))
        .in_file(file.name())
        .hint("a proxy or a mirror may have changed the bytes; try again");
  }
}

class HubStore;

class HubSource final : public SourceFile {
 public:
  HubSource(std::shared_ptr<const HubStore> store, std::shared_ptr<HubFile> file,
            std::shared_ptr<Head> head)
      : store_(std::move(store)), file_(std::move(file)), head_(std::move(head)) {}
  std::uint64_t size_bytes() const override { return file_->listing().size_bytes; }
  const std::string& name() const override { return file_->name(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  FileIdentity identity() const override;
  // A commit doesn't change. Reading shows whether the hub still has it.
  void check_unchanged() const override {}
  bool takes_hints() const noexcept override { return false; }
  bool is_far() const noexcept override { return true; }
  std::unique_ptr<PendingRead> start_read(std::uint64_t offset,
                                          std::span<std::byte> out) const override;
  void keep_in(const std::shared_ptr<Arrivals>& arrivals, std::uint32_t file) override {
    kept_in_ = {arrivals, file};
  }

 private:
  std::vector<HubRead> start_missing(std::uint64_t offset, std::span<std::byte> out,
                                     std::uint64_t most) const;
  void check_head() const;

  std::shared_ptr<const HubStore> store_;
  std::shared_ptr<HubFile> file_;
  std::shared_ptr<Head> head_;  // null: nothing was read ahead
  KeptIn kept_in_;
};

// Without a listing and links, a snapshot doesn't tell its files' digests.
bool has_digest(const TreeFile& listing) {
  return !listing.sha256.empty() || !listing.blob_id.empty();
}

FileIdentity identity_of(const TreeFile& listing) {
  return {listing.size_bytes,
          listing.sha256.empty() ? "git:" + listing.blob_id : "sha256:" + listing.sha256};
}

// A file of the cache with the identity of the hub's listing. So a run that began without a cache
// can continue, and workers with and without one agree. While it is open, it is a file.
class CachedSource final : public SourceFile {
 public:
  CachedSource(std::unique_ptr<SourceFile> file, FileIdentity identity)
      : file_(std::move(file)), identity_(std::move(identity)) {}
  std::uint64_t size_bytes() const override { return file_->size_bytes(); }
  const std::string& name() const override { return file_->name(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    file_->read_at(offset, out);
  }
  View view(std::uint64_t offset, std::uint64_t length,
            std::span<std::byte> scratch) const override {
    return file_->view(offset, length, scratch);
  }
  void will_need(std::uint64_t offset, std::uint64_t length) const override {
    file_->will_need(offset, length);
  }
  void done_with(std::uint64_t offset, std::uint64_t length) const override {
    file_->done_with(offset, length);
  }
  FileIdentity identity() const override { return identity_; }
  void check_unchanged() const override { file_->check_unchanged(); }
  void check_used(const View& view, std::uint64_t offset, std::uint64_t length) const override {
    file_->check_used(view, offset, length);
  }
  bool takes_hints() const noexcept override { return file_->takes_hints(); }
  std::optional<IoChoice> choice() const override { return file_->choice(); }

 private:
  std::unique_ptr<SourceFile> file_;
  FileIdentity identity_;
};

class HubStore final : public Store, public std::enable_shared_from_this<HubStore> {
 public:
  HubStore(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
           std::string snapshot)
      : client_(std::move(client)), repo_(std::move(repo)), snapshot_(std::move(snapshot)) {
    for (TreeFile& item : listing) {
      std::string path = item.path;
      for (std::string at = path; at.find('/') != std::string::npos;) {
        const std::string below = at;
        at = parent_path(at);
        directories_[at].insert(below.substr(at.size() + 1));
      }
      directories_["."].insert(path.substr(0, path.find('/')));
      auto file = std::make_shared<HubFile>(client_.get(), repo_, std::move(item));
      if (!files_.emplace(path, std::move(file)).second) {
        throw Error(ErrorCode::network, fmt::format("the listing has {} twice", quote(path)))
            .in_file(text("."));
      }
    }
    directories_["."];
  }
  HubClient& client() const noexcept { return *client_; }

  std::string text(const std::string& name) const override {
    const std::string root = fmt::format("hf://{}@{}", repo_.name, repo_.commit);
    const std::string path = plain(name);
    return path == "." ? root : root + "/" + path;
  }
  std::vector<std::string> list(const std::string& name) const override {
    const auto found = directories_.find(plain(name));
    if (found == directories_.end()) throw absent(name);
    return {found->second.begin(), found->second.end()};
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    const std::string path = plain(name);
    if (directories_.contains(path)) return StoreEntry{FileKind::directory, {}};
    const auto found = files_.find(path);
    if (found == files_.end()) return std::nullopt;
    const TreeFile& listing = found->second->listing();
    if (const auto cached = cached_path(*found->second); cached && !has_digest(listing)) {
      return local_store()->find(*cached);
    }
    return StoreEntry{FileKind::regular, identity_of(listing)};
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    const auto file = file_of(name);
    if (const auto cached = cached_path(*file)) {
      return as_listed(*file, local_store()->open(*cached));
    }
    check_reachable(*file);
    return std::make_unique<HubSource>(shared_from_this(), file, take_head(plain(name), file));
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                        std::shared_ptr<DropBehind> behind) const override {
    const auto file = file_of(name);
    if (const auto cached = cached_path(*file)) {
      return as_listed(*file, local_store()->open_data(*cached, wanted, std::move(behind)));
    }
    check_reachable(*file);
    return std::make_unique<HubSource>(shared_from_this(), file, nullptr);
  }
  bool is_far(const std::string& name) const override {
    const auto found = files_.find(plain(name));
    return client_ && found != files_.end() && !cached_path(*found->second);
  }
  std::string revision() const override { return repo_.commit; }
  std::optional<NetworkUse> network_use() const override {
    if (!client_) return std::nullopt;
    const HubTraffic& traffic = client_->traffic();
    return NetworkUse{traffic.hub_requests + traffic.data_requests, traffic.data_requests,
                      traffic.data_bytes, 0, 0};
  }
  std::optional<std::string> local_path(const std::string& name) const override {
    const auto found = files_.find(plain(name));
    if (found == files_.end()) return std::nullopt;
    return cached_path(*found->second);
  }
  std::optional<std::string> fetched_path(const std::string& name) const override {
    const auto found = files_.find(plain(name));
    if (snapshot_.empty() || found == files_.end()) return std::nullopt;
    return join_path(snapshot_, found->second->listing().path);
  }

 private:
  static std::string plain(std::string path) {
    while (path.starts_with("./")) path.erase(0, 2);
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path.empty() ? "." : path;
  }
  Error absent(const std::string& name) const {
    return Error(ErrorCode::not_found, "the model doesn't have this file").in_file(text(name));
  }
  std::shared_ptr<HubFile> file_of(const std::string& name) const {
    const auto found = files_.find(plain(name));
    if (found == files_.end()) throw absent(name);
    return found->second;
  }
  void check_reachable(const HubFile& file) const {
    if (client_) return;
    throw Error(ErrorCode::not_found, "the cache lacks this file of the model")
        .in_file(file.name())
        .hint("run hfshard fetch first, or unset HF_HUB_OFFLINE");
  }
  static std::unique_ptr<SourceFile> as_listed(const HubFile& file,
                                               std::unique_ptr<SourceFile> cached) {
    if (!has_digest(file.listing())) return cached;
    return std::make_unique<CachedSource>(std::move(cached), identity_of(file.listing()));
  }
  // Returns a file of the cache with the right size. Its readers check its contents. Looks only
  // once, so that other processes can't change a run's source.
  std::optional<std::string> cached_path(const HubFile& file) const {
    if (snapshot_.empty()) return std::nullopt;
    const std::lock_guard lock(cached_mutex_);
    const auto known = cached_.find(file.listing().path);
    if (known != cached_.end()) return known->second;
    std::optional<std::string> path = join_path(snapshot_, file.listing().path);
    const auto info = file_info(*path);
    if (!info || info->kind != FileKind::regular ||
        info->stamp.size_bytes != file.listing().size_bytes) {
      path.reset();
    }
    return cached_.emplace(file.listing().path, std::move(path)).first->second;
  }

  // Also starts the heads of the next files of the same kind, since files are opened in order.
  std::shared_ptr<Head> take_head(const std::string& name,
                                  const std::shared_ptr<HubFile>& file) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Head> head = start_head(name, file);
    if (name.ends_with(".safetensors")) {
      std::size_t ahead = 0;
      for (auto next = files_.upper_bound(name); next != files_.end() && ahead < kHeadsAhead;
           ++next) {
        if (!next->first.ends_with(".safetensors") || opened_.contains(next->first)) continue;
        if (parent_path(next->first) != parent_path(name)) continue;
        if (cached_path(*next->second)) continue;
        start_head(next->first, next->second);
        ++ahead;
      }
    }
    heads_.erase(name);
    opened_.insert(name);
    return head;
  }
  std::shared_ptr<Head> start_head(const std::string& name,
                                   const std::shared_ptr<HubFile>& file) const {
    std::shared_ptr<Head>& head = heads_[name];
    if (head) return head;
    head = std::make_shared<Head>();
    head->bytes.resize(std::min(kHeadBytes, file->listing().size_bytes));
    head->read = client_->reads().start(file, 0, head->bytes);
    return head;
  }

  std::shared_ptr<HubClient> client_;
  HubRepo repo_;
  std::string snapshot_;
  std::map<std::string, std::shared_ptr<HubFile>> files_;
  std::map<std::string, std::set<std::string>> directories_;
  mutable std::mutex cached_mutex_;
  mutable std::map<std::string, std::optional<std::string>> cached_;  // results of cached_path
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Head>> heads_;  // not opened yet
  mutable std::set<std::string> opened_;
};

// Keeps the client alive, which the read needs until it ends.
class HubPending final : public PendingRead {
 public:
  HubPending(std::shared_ptr<const HubStore> store, std::vector<HubRead> parts)
      : store_(std::move(store)), parts_(std::move(parts)) {}
  void wait() override {
    for (const HubRead& part : parts_) part.wait();
  }

 private:
  std::shared_ptr<const HubStore> store_;
  std::vector<HubRead> parts_;
};

std::unique_ptr<PendingRead> HubSource::start_read(std::uint64_t offset,
                                                   std::span<std::byte> out) const {
  return std::make_unique<HubPending>(store_, start_missing(offset, out, UINT64_MAX));
}

// Starts reads of at most `most` bytes for what earlier runs haven't kept.
std::vector<HubRead> HubSource::start_missing(std::uint64_t offset, std::span<std::byte> out,
                                              std::uint64_t most) const {
  std::vector<ByteRange> missing{{offset, offset + out.size()}};
  if (kept_in_.arrivals) missing = kept_in_.arrivals->fill(kept_in_.file, offset, out);
  std::vector<HubRead> parts;
  for (const ByteRange& range : missing) {
    for (std::uint64_t at = range.begin; at < range.end;) {
      const std::uint64_t size = std::min(most, range.end - at);
      parts.push_back(
          store_->client().reads().start(file_, at, out.subspan(at - offset, size), kept_in_));
      at += size;
    }
  }
  return parts;
}

// Waits for the front of the file, and checks it once.
void HubSource::check_head() const {
  head_->read.wait();
  const std::lock_guard lock(head_->mutex);
  if (!head_->checked) check_content(*file_, head_->bytes);
  head_->checked = true;
}

FileIdentity HubSource::identity() const { return identity_of(file_->listing()); }

void HubSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_bytes() || out.size() > size_bytes() - offset) {
    throw Error(ErrorCode::corrupt, "the file ends before this range")
        .in_file(name())
        .at({offset, offset + out.size()}, size_bytes());
  }
  if (head_ && offset < head_->bytes.size()) {
    check_head();
    const std::size_t there = std::min<std::size_t>(out.size(), head_->bytes.size() - offset);
    std::memcpy(out.data(), head_->bytes.data() + offset, there);
    out = out.subspan(there);
    offset += there;
  }
  // They must end here, since they fill the caller's memory.
  const std::vector<HubRead> parts = start_missing(offset, out, kPartBytes);
  for (const HubRead& part : parts) part.wait();
}

}  // namespace

StorePath hub_place(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
                    std::string snapshot) {
  return {std::make_shared<HubStore>(std::move(client), std::move(repo), std::move(listing),
                                     std::move(snapshot)),
          "."};
}

}  // namespace hfshard
