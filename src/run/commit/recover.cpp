// A run can end at any instant, also between the rename that publishes and the removal of the
// staging directory. Then the journals still list all data as written. But the staged step is gone
// or, after an exchange, the old one. A run that trusted them would publish old data under new
// metadata. So a note holds the inode of the staged step, written before the rename and compared
// afterwards.

#include "run/commit/recover.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/inner_path.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "run/commit/in_place.h"

namespace hfshard {
namespace {

constexpr const char* kMarkName = "publishing.json";
constexpr const char* kHfName = "hf";
constexpr std::string_view kAside = ".swap";  // of rename_exchange

bool is_journal(const std::string& name) { return name.starts_with("journal."); }

std::string mark_path(const OutPaths& paths) { return join_path(paths.staging, kMarkName); }

Json read_mark(const OutPaths& paths) {
  const std::string path = mark_path(paths);
  return exists(path) ? parse_json(read_file(path), path) : Json();
}

// An exchange by three renames moves OUT's own directory aside first; an interrupted one leaves it
// there. Only what is exchanged goes back: the step and hf/.
void put_back(const OutPaths& paths, const std::string& step) {
  const std::string whole = paths.tree + std::string(kAside);  // of a format without steps
  if (exists(whole) && !exists(paths.out)) {
    rename_noreplace(whole, paths.out);
    fsync_directory(paths.parent);
  }
  if (!exists(paths.out)) return;
  for (const std::string& own : {entry_name(step), std::string(kHfName)}) {
    const std::string aside = join_path(paths.tree, own + std::string(kAside));
    const std::string place = join_path(paths.out, own);
    if (!exists(aside) || exists(place)) continue;
    rename_noreplace(aside, place);
    fsync_directory(paths.out);
  }
}

// hf/ goes into place before the step does: without the step it goes back.
void take_back_hf(const OutPaths& paths, const std::string& step, std::uint64_t staged_inode) {
  const std::string staged = join_path(paths.tree, kHfName);
  const std::string hf = join_path(paths.out, kHfName);
  if (staged_inode == 0 || inode_of(hf) != staged_inode) return;
  if (exists(staged)) {
    rename_exchange(staged, hf);
  } else {
    rename_noreplace(hf, staged);
    put_back(paths, step);
  }
  fsync_directory(paths.out);
}

StagingUse use_of(const OutPaths& paths, const Json& mark) {
  if (mark.is_null()) return StagingUse::go_on;
  if (is_index_mark(mark)) return index_use(paths, mark);
  // The mark knows the step; who cleans does not.
  const std::string step = noted_step(paths, mark);
  return inode_of(step) == mark.at("inode").as_uint() ? StagingUse::go_on : StagingUse::published;
}

// A note that lacks a member, or is no JSON, says nothing.
template <typename Read>
StagingUse read_with(const OutPaths& paths, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {  // what it lacks is said without the file
    if (error.code() == ErrorCode::bad_input) throw bad_mark(paths, std::string(error.what()));
    throw;
  }
}

StagingUse recover_noted(const OutPaths& paths) {
  const Json mark = read_mark(paths);
  if (mark.is_null()) return StagingUse::go_on;
  if (is_index_mark(mark)) return take_back_index(paths, mark);
  const std::string step = noted_step(paths, mark);
  put_back(paths, step);
  const StagingUse use = use_of(paths, mark);
  if (use == StagingUse::go_on) take_back_hf(paths, step, mark.at("hf").as_uint());
  return use;
}

}  // namespace

void mark_publishing(const OutPaths& paths) {
  Json mark;
  mark["step"] = paths.step.substr(paths.staging.size() + 1);
  mark["inode"] = inode_of(paths.step);
  mark["hf"] = inode_of(join_path(paths.tree, kHfName));
  write_mark(paths, mark);
}

std::uint64_t inode_of(const std::string& path) {
  const auto info = file_info(path);
  return info ? info->stamp.inode : 0;
}

Error bad_mark(const OutPaths& paths, const std::string& what) {
  return Error(ErrorCode::corrupt, "the note of an interrupted publish is damaged: " + what)
      .in_file(mark_path(paths))
      .hint(fmt::format("hfshard changed nothing; if you don't need its contents, run: rm -r {}",
                        shell_word(paths.staging)));
}

std::string noted_step(const OutPaths& paths, const Json& mark) {
  const std::string& step = mark.at("step").as_string();
  const std::string tree = entry_name(paths.tree);
  if (!is_inner_path(step) || !(step == tree || step.starts_with(tree + "/")))
    throw bad_mark(paths, fmt::format("{} isn't a staged step", quote(step)));
  // Through a link it would be anybody's.
  std::string at = paths.staging;
  for (const std::string& part : split(step, '/')) {
    at = join_path(at, part);
    if (is_symlink(at)) throw bad_mark(paths, fmt::format("{} is a link", quote(at)));
  }
  return at;
}

void write_mark(const OutPaths& paths, const Json& mark) {
  write_file_durably(mark_path(paths), dump_json_pretty(mark));
}

void remove_mark(const OutPaths& paths) {
  remove_tree(mark_path(paths));
  fsync_directory(paths.staging);
}

StagingUse staging_use(const OutPaths& paths) {
  return read_with(paths, [&] { return use_of(paths, read_mark(paths)); });
}

StagingUse recover(const OutPaths& paths) {
  return read_with(paths, [&] { return recover_noted(paths); });
}

bool has_journals(const OutPaths& paths) {
  for (const std::string& name : list_directory(paths.staging)) {
    if (is_journal(name)) return true;
  }
  return false;
}

void empty_staging(const OwnedDirectory& staging, const OutPaths& paths) {
  if (recover(paths) == StagingUse::go_on) {
    staging.remove(kMarkName);  // with less than all of it, it would say published
    staging.sync();
  }
  const std::vector<std::string> names = staging.list();
  for (const std::string& name : names) {
    if (is_journal(name)) staging.remove(name);
  }
  staging.sync();
  for (const std::string& name : names) {
    if (!is_journal(name) && name != kMarkName && name != kPlanRecordName) staging.remove(name);
  }
  staging.remove(kPlanRecordName);
  staging.sync();
  staging.remove(kMarkName);
  staging.sync();
}

void remove_staging(const OwnedDirectory& staging, const OutPaths& paths) {
  empty_staging(staging, paths);
  staging.remove_itself();
  fsync_directory(paths.parent);
}

}  // namespace hfshard
