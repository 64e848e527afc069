#include "bytes/hub_store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "bytes/content_digest.h"
#include "bytes/data_source.h"
#include "bytes/files.h"
#include "bytes/hub_name.h"

namespace hfshard {
namespace {

// Nearly all headers are shorter (hub-protocol 4.6).
constexpr std::uint64_t kHeadBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kPartBytes = std::uint64_t{8} << 20;
constexpr std::size_t kHeadsAhead = 16;
constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kSaidNames = 8;

Json parse_answer(const HubAnswer& answer) {
  try {
    return parse_json(answer.body, shown_url(answer.url));
  } catch (const Error& error) {
    throw Error(ErrorCode::network, fmt::format("the answer is no JSON: {}", error.sentence()))
        .in_file(shown_url(answer.url))
        .hint("a proxy or the login page of a network may have answered");
  }
}

HubAnswer ask_api(HubClient& client, const std::string& url, const std::string& repo,
                  const std::string& revision) {
  HubAnswer answer = client.ask_now({url, std::nullopt});
  if (answer.elsewhere) {
    throw Error(ErrorCode::network, fmt::format("it redirects to {}, which is no hub",
                                                quote(shown_url(*answer.elsewhere))))
        .in_file(shown_url(answer.url));
  }
  if (answer.status < 200 || answer.status > 299) {
    throw client.refusal(answer, repo, revision, {});
  }
  return answer;
}

// The branches and tags of a model, for who has mistyped one; none if the hub does not say.
std::vector<std::string> known_revisions(HubClient& client, const std::string& repo) {
  std::vector<std::string> out;
  const std::string url = fmt::format("{}/api/models/{}/refs", client.endpoint(), repo);
  try {
    const Json refs = parse_answer(ask_api(client, url, repo, {}));
    for (const char* kind : {"branches", "tags"}) {
      for (const Json& ref : refs.at(kind).as_array()) {
        out.push_back(printable(ref.at("name").as_string()));
      }
    }
  } catch (const Error& error) {  // it was to be a help
    if (error.code() == ErrorCode::cancelled) throw;
  }
  return out;
}

HubAnswer ask_revision(HubClient& client, const std::string& url, const std::string& repo,
                       const std::string& revision) {
  try {
    return ask_api(client, url, repo, revision);
  } catch (Error& error) {
    if (error.code() != ErrorCode::not_found || revision.empty()) throw;
    std::vector<std::string> known = known_revisions(client, repo);
    if (meant_names(revision, known).empty() && known.size() > kSaidNames) {
      known.resize(kSaidNames);
    }
    if (!known.empty()) error.hint(name_hint(revision, known));
    throw;
  }
}

// The page that `Link: <url>; rel="next"` names.
std::optional<std::string> next_page(const HubAnswer& answer) {
  for (const std::string& line : answer.headers.all("link")) {
    std::size_t at = 0;
    while ((at = line.find('<', at)) != std::string::npos) {
      const std::size_t end = line.find('>', at);
      if (end == std::string::npos) break;
      const std::size_t more = line.find('<', end);
      const std::string_view rest = std::string_view(line).substr(end, more - end);
      if (rest.find("rel=\"next\"") != std::string_view::npos) {
        return line.substr(at + 1, end - at - 1);
      }
      at = end;
    }
  }
  return std::nullopt;
}

// A mirror may name the hub that it mirrors: the same page of the endpoint.
std::string at_endpoint(const HubClient& client, const std::string& from, const std::string& link) {
  const auto next = resolve_location(from, link);
  const auto origin = next ? origin_of(*next) : std::nullopt;
  if (!origin || !client.is_hub(*origin)) {
    throw Error(ErrorCode::network,
                fmt::format("the next page of the listing would be at {}", quote(shown_url(link))))
        .in_file(shown_url(from));
  }
  const std::size_t path = next->find('/', next->find("://") + 3);
  if (origin == origin_of(client.endpoint()) || path == std::string::npos) return *next;
  return client.endpoint() + next->substr(path);
}

TreeFile listing_of(const Json& entry) {
  TreeFile out;
  out.path = entry.at("path").as_string();
  out.size_bytes = entry.at("size").as_uint();
  if (const Json* oid = entry.find("oid"); oid != nullptr && oid->is_string()) {
    out.blob_id = oid->as_string();
  }
  if (const Json* lfs = entry.find("lfs"); lfs != nullptr && lfs->is_object()) {
    out.sha256 = lfs->at("oid").as_string();
    if (!is_sha256(out.sha256)) throw Error(ErrorCode::bad_input, "an oid is no sha256");
    out.size_bytes = lfs->at("size").as_uint();
  }
  if (const Json* xet = entry.find("xetHash"); xet != nullptr && xet->is_string()) {
    out.xet_hash = xet->as_string();
    if (!is_sha256(out.xet_hash)) throw Error(ErrorCode::bad_input, "an xetHash is no hash");
  }
  return out;
}

// The front of a file, read before it is asked for.
struct Head {
  std::vector<std::byte> bytes;
  HubRead read;  // ends before its memory goes
  std::once_flag checked;
};

// A file that came whole is what the hub lists, or nothing of it is used.
void check_content(const HubFile& file, std::span<const std::byte> bytes) {
  const TreeFile& listed = file.listing();
  const std::string& wanted = listed.sha256.empty() ? listed.blob_id : listed.sha256;
  if (bytes.size() != listed.size_bytes || wanted.empty()) return;
  ContentDigest digest(listed);
  digest.update(bytes);
  if (const std::string found = digest.finish(); found != wanted) {
    throw Error(ErrorCode::corrupt, fmt::format("the {} of what came is {}, the hub lists {}",
                                                digest.name(), found, printable(wanted)))
        .in_file(file.name())
        .hint("a proxy or a mirror may have changed it; try again");
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
  // A commit does not change; that the hub still has it shows when it is read.
  void check_unchanged() const override {}
  bool takes_hints() const noexcept override { return false; }
  bool is_far() const noexcept override { return true; }
  std::unique_ptr<PendingRead> start_read(std::uint64_t offset,
                                          std::span<std::byte> out) const override;

 private:
  std::shared_ptr<const HubStore> store_;
  std::shared_ptr<HubFile> file_;
  std::shared_ptr<Head> head_;  // null: nothing was read ahead
};

// Of a snapshot that no listing came with, and that is no links, nothing says what it is.
bool has_digest(const TreeFile& listing) {
  return !listing.sha256.empty() || !listing.blob_id.empty();
}

FileIdentity identity_of(const TreeFile& listing) {
  return {listing.size_bytes,
          listing.sha256.empty() ? "git:" + listing.blob_id : "sha256:" + listing.sha256};
}

// A file of the cache. It is what its hub lists, wherever it is read: a run goes on with it that
// began without a cache, and workers with and without one agree. While it is open, it is a file.
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
    return Error(ErrorCode::not_found, "the model has no such file").in_file(text(name));
  }
  std::shared_ptr<HubFile> file_of(const std::string& name) const {
    const auto found = files_.find(plain(name));
    if (found == files_.end()) throw absent(name);
    return found->second;
  }
  void check_reachable(const HubFile& file) const {
    if (client_) return;
    throw Error(ErrorCode::not_found, "the cache does not have this file of the model")
        .in_file(file.name())
        .hint("fetch it first, or name the model with the network on");
  }
  static std::unique_ptr<SourceFile> as_listed(const HubFile& file,
                                               std::unique_ptr<SourceFile> cached) {
    if (!has_digest(file.listing())) return cached;
    return std::make_unique<CachedSource>(std::move(cached), identity_of(file.listing()));
  }
  // A file of the cache with the right size; what is in it is looked at where it is read. Looked
  // for once: what another process brings meanwhile does not change where a run reads.
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

  // Starts the heads of the next files of the same kind, too: they are opened one after the other.
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
  mutable std::map<std::string, std::optional<std::string>> cached_;  // what cached_path found
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Head>> heads_;  // not yet opened
  mutable std::set<std::string> opened_;
};

// Keeps the client, which the read needs until it ends.
class HubPending final : public PendingRead {
 public:
  HubPending(std::shared_ptr<const HubStore> store, HubRead read)
      : store_(std::move(store)), read_(std::move(read)) {}
  void wait() override { read_.wait(); }

 private:
  std::shared_ptr<const HubStore> store_;
  HubRead read_;
};

std::unique_ptr<PendingRead> HubSource::start_read(std::uint64_t offset,
                                                   std::span<std::byte> out) const {
  return std::make_unique<HubPending>(store_, store_->client().reads().start(file_, offset, out));
}

FileIdentity HubSource::identity() const { return identity_of(file_->listing()); }

void HubSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_bytes() || out.size() > size_bytes() - offset) {
    throw Error(ErrorCode::corrupt, "the file ends before this range")
        .in_file(name())
        .at({offset, offset + out.size()}, size_bytes());
  }
  if (head_ && offset < head_->bytes.size()) {
    head_->read.wait();
    std::call_once(head_->checked, [&] { check_content(*file_, head_->bytes); });
    const std::size_t there = std::min<std::size_t>(out.size(), head_->bytes.size() - offset);
    std::memcpy(out.data(), head_->bytes.data() + offset, there);
    out = out.subspan(there);
    offset += there;
  }
  std::vector<HubRead> parts;  // they fill the caller's memory: none outlives this call
  HubReads& reads = store_->client().reads();
  for (std::size_t at = 0; at < out.size(); at += kPartBytes) {
    parts.push_back(reads.start(
        file_, offset + at, out.subspan(at, std::min<std::size_t>(kPartBytes, out.size() - at))));
  }
  for (const HubRead& part : parts) part.wait();
}

}  // namespace

HubRepo resolve_revision(HubClient& client, const std::string& repo, const std::string& revision) {
  if (is_commit(revision)) return {repo, revision};
  const std::string tail =
      revision.empty() ? std::string() : "/revision/" + escape_revision(revision);
  const std::string url = fmt::format("{}/api/models/{}{}", client.endpoint(), repo, tail);
  const HubAnswer answer = ask_revision(client, url, repo, revision);
  const Json info = parse_answer(answer);
  const Json* sha = info.find("sha");
  if (sha == nullptr || !sha->is_string() || !is_commit(sha->as_string())) {
    throw Error(ErrorCode::network, "the answer is not a hub's: it names no commit")
        .in_file(shown_url(answer.url))
        .hint("a proxy or the login page of a network may have answered");
  }
  return {repo, sha->as_string()};
}

std::vector<TreeFile> list_files(HubClient& client, const HubRepo& repo) {
  std::vector<TreeFile> out;
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true&expand=false",
                                client.endpoint(), repo.name, repo.commit);
  std::set<std::string> seen;
  bool told = false;
  while (true) {
    if (!seen.insert(url).second) {
      throw Error(ErrorCode::network, "the listing's pages go in circles").in_file(shown_url(url));
    }
    const HubAnswer answer = ask_api(client, url, repo.name, repo.commit);
    const Json page = parse_answer(answer);
    try {
      for (const Json& entry : page.as_array()) {
        if (entry.at("type").as_string() != "file") continue;
        TreeFile file = listing_of(entry);
        if (const auto problem = repo_path_problem(file.path)) {  // nobody can ask for it
          if (!told && client.options().note) {
            client.options().note(
                fmt::format("leaves out {} of {}: {}", quote(file.path), repo.name, *problem));
          }
          told = true;
          continue;
        }
        out.push_back(std::move(file));
      }
    } catch (const Error& error) {
      throw Error(ErrorCode::network,
                  fmt::format("the listing of files is none: {}", error.sentence()))
          .in_file(shown_url(url));
    }
    if (out.size() > kMostFiles) {
      throw Error(ErrorCode::limit, "the model has more than a million files")
          .in_file(shown_url(url));
    }
    const auto next = next_page(answer);
    if (!next) return out;
    url = at_endpoint(client, answer.url, *next);
  }
}

StorePath hub_place(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
                    std::string snapshot) {
  return {std::make_shared<HubStore>(std::move(client), std::move(repo), std::move(listing),
                                     std::move(snapshot)),
          "."};
}

}  // namespace hfshard
