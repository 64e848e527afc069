#include "run/keeping/linked_files.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/files.h"
#include "bytes/link_file.h"
#include "bytes/output.h"

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

}  // namespace

std::string linkable_path(const StorePath& file) {
  if (auto path = file.local_path()) return std::move(*path);
  throw Error(ErrorCode::unsupported, "only a file of this machine can be linked to")
      .in_file(file.text());
}

void give_name(const std::string& from, const std::string& to, ShardLinks how) {
  make_directories(parent_path(to));
  const std::vector<LinkKind> all = kinds(how);
  if (std::ranges::any_of(all, [&](LinkKind kind) { return link_file(from, to, kind); })) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("the file system cannot link {} here in the way that was asked for", quote(from)))
      .in_file(to)
      .hint("pass --shards auto, or put the output on the source's file system");
}

void link_shards(const Plan& plan, const std::string& step, const std::string& item,
                 ShardLinks how) {
  Json record;
  record["files"] = Json::Array{};
  for (const std::uint32_t index : plan.linked_files()) {
    const CatalogFile& file = plan.catalog().files[index];
    const std::string to = join_path(item, plan.file_path(plan.file_count() + index));
    // Beside the index nothing is needed in the end; while it is staged, it leads to the files.
    const std::string from = linkable_path(file.path);
    give_name(from, to, plan.options().in_place ? ShardLinks::symbolic : how);
    Json entry;
    entry["path"] = to.substr(step.size() + 1);
    entry["bytes"] = file.size_bytes;
    entry["mtime_ns"] = file_info(from)->stamp.mtime_ns;
    record["files"].array().push_back(std::move(entry));
  }
  write_file_durably(join_path(step, kLinksName), dump_json_pretty(record));
}

std::vector<LinkFinding> check_links(const std::string& step) {
  std::vector<LinkFinding> out;
  const std::string path = join_path(step, kLinksName);
  if (!exists(path)) return out;
  const Json record = parse_json(read_file(path), path);
  for (const Json& entry : record.at("files").as_array()) {
    const std::string file = join_path(step, entry.at("path").as_string());
    const auto info = file_info(file);
    if (!info) {
      out.push_back({file, "the linked file is missing"});
    } else if (info->stamp.size_bytes != entry.at("bytes").as_uint()) {
      out.push_back({file, fmt::format("the linked file has {} bytes, {} when it was linked",
                                       info->stamp.size_bytes, entry.at("bytes").as_uint())});
    } else if (info->stamp.mtime_ns != entry.at("mtime_ns").as_int()) {
      out.push_back({file, "the linked file was written to, or copied, since it was linked"});
    }
  }
  return out;
}

}  // namespace hfshard
