// A run may end at any instant, also between the rename that publishes and the removal of the
// staging directory. Then the journals still say that all data is written, but the staged step is
// gone or, after an exchange, is the old one: believing them would publish old data under new
// metadata. So the inode of the staged step is noted before the rename, and compared afterwards.

#include "run/recover.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/files.h"
#include "bytes/output.h"

namespace hfshard {
namespace {

constexpr const char* kMarkName = "publishing.json";
constexpr std::string_view kAside = ".swap";  // of rename_exchange

std::uint64_t inode_of(const std::string& path) {
  const auto info = file_info(path);
  return info ? info->stamp.inode : 0;
}

bool is_journal(const std::string& name) { return name.starts_with("journal."); }

// An exchange by three renames moves OUT's own directory aside first; an interrupted one leaves it
// there.
void put_back(const OutPaths& paths) {
  if (!exists(paths.tree) || !exists(paths.out)) return;
  for (const std::string& name : list_directory(paths.tree)) {
    if (!name.ends_with(kAside)) continue;
    const std::string own = name.substr(0, name.size() - kAside.size());
    const std::string place = join_path(paths.out, own);
    if (exists(place)) continue;
    rename_noreplace(join_path(paths.tree, name), place);
    fsync_directory(paths.out);
  }
}

}  // namespace

void mark_publishing(const OutPaths& paths) {
  Json mark;
  mark["inode"] = inode_of(paths.step);
  write_file_durably(join_path(paths.staging, kMarkName), dump_json_pretty(mark));
}

StagingUse recover(const OutPaths& paths) {
  const std::string path = join_path(paths.staging, kMarkName);
  if (!exists(path)) return StagingUse::go_on;
  put_back(paths);
  const std::uint64_t staged = parse_json(read_file(path), path).at("inode").as_uint();
  return inode_of(paths.step) == staged ? StagingUse::go_on : StagingUse::published;
}

bool has_journals(const OutPaths& paths) {
  for (const std::string& name : list_directory(paths.staging)) {
    if (is_journal(name)) return true;
  }
  return false;
}

void empty_staging(const OutPaths& paths) {
  put_back(paths);
  const std::vector<std::string> names = list_directory(paths.staging);
  for (const std::string& name : names) {
    if (is_journal(name)) remove_tree(join_path(paths.staging, name));
  }
  fsync_directory(paths.staging);
  for (const std::string& name : names) {
    if (name != "lock") remove_tree(join_path(paths.staging, name));
  }
  fsync_directory(paths.staging);
}

void remove_staging(const OutPaths& paths) {
  empty_staging(paths);
  remove_tree(paths.staging);
}

}  // namespace hfshard
