#include "run/commit/linked_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/inner_path.h"
#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/link_file.h"
#include "bytes/local/output.h"
#include "bytes/local/syscalls.h"
#include "run/engine/sources.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::vector<LinkKind> kinds(ShardLinks how) {
  switch (how) {
    case ShardLinks::hard:
      return {LinkKind::hard};
    case ShardLinks::symbolic:
      return {LinkKind::symbolic};
    case ShardLinks::reflink:
      return {LinkKind::reflink};
    case ShardLinks::automatic:
      break;
  }
  return {LinkKind::hard, LinkKind::symbolic};
}

// Reads the list of linked files in a step. It is empty if no file was linked.
Json read_links(const std::string& step) {
  const std::string path = join_path(step, kLinksName);
  if (exists(path)) return parse_json(read_file(path), path);
  Json none;
  none["files"] = Json::Array{};
  return none;
}

// The linked file that an entry of the record names.
std::string linked_path(const std::string& step, const Json& entry) {
  const std::string& path = entry.at("path").as_string();
  if (is_inner_path(path)) return join_path(step, path);
  throw Error(ErrorCode::corrupt, fmt::format("a linked file lies outside: {}", quote(path)))
      .in_file(join_path(step, kLinksName));
}

// Files of this machine, and some that are found but not there.
class FetchedStore final : public Store {
 public:
  explicit FetchedStore(std::map<std::string, std::uint64_t> awaited)
      : awaited_(std::move(awaited)) {}
  std::string text(const std::string& name) const override { return local_->text(name); }
  std::vector<std::string> list(const std::string& name) const override {
    return local_->list(name);
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    const auto found = awaited_.find(name);
    if (found == awaited_.end()) return local_->find(name);
    return StoreEntry{FileKind::regular, {found->second, {}}};
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    return local_->open(name);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                        std::shared_ptr<DropBehind> behind) const override {
    return local_->open_data(name, wanted, std::move(behind));
  }
  std::optional<std::string> local_path(const std::string& name) const override {
    return local_->local_path(name);
  }

 private:
  std::map<std::string, std::uint64_t> awaited_;
  std::shared_ptr<const Store> local_ = local_store();
};

// A name that leads to where a file will be.
void await_file(const std::string& later, const std::string& to) {
  make_directories(parent_path(to));
  remove_tree(to);
  const std::string target = std::filesystem::absolute(later).string();
  if (sys::symlink(target.c_str(), to.c_str()) != 0) {
    throw sys::failure("link to " + target, to, errno);
  }
}

}  // namespace

std::string linkable_path(const StorePath& file) {
  if (auto path = file.local_path()) return std::move(*path);
  throw Error(ErrorCode::unsupported, "hfshard can link only to local files").in_file(file.text());
}

void check_linkable(const Plan& plan, ShardLinks how) {
  const bool may_be_awaited = (how == ShardLinks::automatic || how == ShardLinks::symbolic) &&
                              !plan.options().digests && !plan.options().in_place;
  for (const std::uint32_t index : plan.linked_files()) {
    const StorePath& file = plan.catalog().files[index].path;
    if (file.local_path() || (may_be_awaited && file.fetched_path())) continue;
    if (!file.is_far()) {
      throw Error(ErrorCode::unsupported, "the file doesn't store the tensor as one run of bytes")
          .in_file(file.text())
          .hint("run hfshard convert instead, which copies tensors in several parts");
    }
    throw Error(ErrorCode::unsupported,
                "this file isn't on this machine, so hfshard can't link to it")
        .in_file(file.text())
        .hint("pass --keep-files to fetch the model first, or leave out --digests and --shards");
  }
}

void give_name(const std::string& from, const std::string& to, ShardLinks how) {
  make_directories(parent_path(to));
  const std::vector<LinkKind> all = kinds(how);
  if (std::ranges::any_of(all, [&](LinkKind kind) { return link_file(from, to, kind); })) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("the file system can't link {} here in this way", quote(from)))
      .in_file(to)
      .hint("pass --shards auto, or put the output on the source's file system");
}

LinkedShards link_shards(const Plan& plan, const std::string& step, const std::string& item,
                         ShardLinks how) {
  LinkedShards out;
  Json record;
  record["files"] = Json::Array{};
  for (const std::uint32_t index : plan.linked_files()) {
    const CatalogFile& file = plan.catalog().files[index];
    const std::string to = join_path(item, plan.file_path(plan.file_count() + index));
    // Beside the index nothing is needed in the end; while it is staged, it leads to the files.
    Json entry;
    entry["path"] = to.substr(step.size() + 1);
    entry["bytes"] = file.size_bytes;
    if (!file.header_sha256.empty()) entry["header_sha256"] = file.header_sha256;
    if (const auto later = file.path.fetched_path(); later && !file.path.local_path()) {
      await_file(*later, to);
      entry["source"] = file.path.text();
      out.awaited.push_back({*later, file.size_bytes});
    } else {
      const std::string from = linkable_path(file.path);
      (void)unchanged_identity(file);
      give_name(from, to, plan.options().in_place ? ShardLinks::symbolic : how);
      // Our own link gave it another link count and change time.
      FileIdentity now = unchanged_identity(file);
      CatalogFile& linked = out.files.emplace_back(file);
      if (!linked.inodes.empty()) linked.inodes = std::move(now.inodes);  // else times aren't exact
      entry["mtime_ns"] = file_info(from)->stamp.mtime_ns;
    }
    record["files"].array().push_back(std::move(entry));
  }
  write_file_durably(join_path(step, kLinksName), dump_json_pretty(record));
  return out;
}

StorePath as_fetched(const std::string& step) {
  const Json record = read_links(step);
  std::map<std::string, std::uint64_t> awaited;
  for (const Json& entry : record.at("files").as_array()) {
    const std::string path = linked_path(step, entry);
    if (!file_info(path)) awaited.emplace(path, entry.at("bytes").as_uint());
  }
  return {std::make_shared<FetchedStore>(std::move(awaited)), step};
}

Error explained(Error error, const std::string& step) {
  const Json record = read_links(step);
  for (const Json& entry : record.at("files").as_array()) {
    const Json* source = entry.find("source");
    if (source == nullptr || file_info(linked_path(step, entry))) continue;
    return error.hint(fmt::format("it isn't in the cache yet; run: hfshard fetch {}",
                                  printable(parent_path(source->as_string()))));
  }
  return error;
}

std::vector<LinkedFile> linked_files(const std::string& step) {
  std::vector<LinkedFile> out;
  const Json record = read_links(step);
  for (const Json& entry : record.at("files").as_array()) {
    const std::string file = linked_path(step, entry);
    const auto info = file_info(file);
    const Json* source = entry.find("source");
    const Json* written = entry.find("mtime_ns");
    const Json* header = entry.find("header_sha256");
    std::string fault;
    if (!info) {
      fault = source == nullptr
                  ? "the linked file is missing"
                  : fmt::format("the linked file isn't in the cache yet: {}", source->as_string());
    } else if (info->stamp.size_bytes != entry.at("bytes").as_uint()) {
      fault = fmt::format("the linked file has {} bytes; it had {} when it was linked",
                          info->stamp.size_bytes, entry.at("bytes").as_uint());
    } else if (written != nullptr && info->stamp.mtime_ns != written->as_int()) {
      fault = "the linked file was written to, or copied, since it was linked";
    }
    out.push_back({file, std::move(fault), info.has_value(),
                   header == nullptr ? std::string() : header->as_string()});
  }
  return out;
}

}  // namespace hfshard
