// An index in place has no directory of its own that one rename could exchange. Its files move one
// by one, each by a rename, so that a file is always in exactly one place, and where it is tells
// how far it came:
//  1. directories for what will be replaced (`old/` in staging), then a note of all names, durable
//  2. the old commit file moves to `old/`: from here on the directory is no checkpoint, which no
//     reader can take for a whole one
//  3. every other file: the old one moves to `old/`, the new one to its place
//  4. all directories are synced, then the new commit file moves to its place: published
// A run that finds the note and the new commit file still in staging moves everything back in the
// opposite order, the old commit file last. So a commit file never stands beside files of another
// index, and either index is whole somewhere until the other one stands.

#include "run/keeping/in_place.h"

#include <algorithm>
#include <set>

#include "bytes/files.h"

namespace hfshard {
namespace {

constexpr const char* kOld = "old";

std::vector<std::string> strings(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.as_array()) out.push_back(item.as_string());
  return out;
}

Json json_strings(const std::vector<std::string>& list) {
  Json out = Json::Array{};
  for (const std::string& item : list) out.array().emplace_back(item);
  return out;
}

// The directories that relative paths go through, each before those below it.
std::set<std::string> directories_of(const std::vector<std::string>& files) {
  std::set<std::string> out;
  for (const std::string& file : files) {
    for (std::size_t at = file.find('/'); at != std::string::npos; at = file.find('/', at + 1))
      out.insert(file.substr(0, at));
  }
  return out;
}

// What a note says.
struct Placing {
  std::string staged;  // where the new files come from
  std::string old;     // and where the old ones go
  IndexFiles index;
  std::vector<std::string> made;  // directories that OUT did not have
};

Placing read_mark(const OutPaths& paths, const Json& mark) {
  return {join_path(paths.staging, mark.at("step").as_string()),
          join_path(paths.staging, kOld),
          {strings(mark.at("files")), strings(mark.at("stale"))},
          strings(mark.at("made"))};
}

Placing prepare(const OutPaths& paths, const IndexFiles& index) {
  Placing out{paths.step, join_path(paths.staging, kOld), index, {}};
  remove_tree(out.old);  // of a run that ended before it had noted anything
  make_directories(out.old);
  std::vector<std::string> all = index.files;
  all.insert(all.end(), index.stale.begin(), index.stale.end());
  for (const std::string& directory : directories_of(all)) {
    make_directories(join_path(out.old, directory));
    if (!exists(join_path(paths.out, directory))) out.made.push_back(directory);
  }
  sync_tree(out.old);
  fsync_directory(paths.staging);
  Json mark;
  mark["step"] = paths.step.substr(paths.staging.size() + 1);
  mark["files"] = json_strings(index.files);
  mark["stale"] = json_strings(index.stale);
  mark["made"] = json_strings(out.made);
  write_mark(paths, mark);
  return out;
}

void move_file(const std::string& from, const std::string& to, const std::string& file) {
  if (exists(join_path(from, file))) rename_path(join_path(from, file), join_path(to, file));
}

// The names of an index in OUT, and of what it replaces, are durable.
void sync_names(const OutPaths& paths, const Placing& placing) {
  for (const std::string& directory : directories_of(placing.index.files)) {
    const std::string path = join_path(paths.out, directory);
    if (exists(path)) fsync_directory(path);
  }
  fsync_directory(paths.out);
  sync_tree(placing.old);
  sync_tree(placing.staged);
}

}  // namespace

void place_index(const OutPaths& paths, const IndexFiles& index) {
  const Placing placing = prepare(paths, index);
  for (const std::string& directory : placing.made)
    make_directories(join_path(paths.out, directory));
  const std::string& commit = index.files.back();
  move_file(paths.out, placing.old, commit);
  sync_names(paths, placing);
  for (const std::string& file : index.files) {
    if (file == commit) continue;
    move_file(paths.out, placing.old, file);
    move_file(placing.staged, paths.out, file);
  }
  for (const std::string& file : index.stale) move_file(paths.out, placing.old, file);
  sync_names(paths, placing);
  move_file(placing.staged, paths.out, commit);
  fsync_directory(paths.out);
}

bool is_index_mark(const Json& mark) { return mark.find("files") != nullptr; }

StagingUse index_use(const OutPaths& paths, const Json& mark) {
  const Placing placing = read_mark(paths, mark);
  const std::string& commit = placing.index.files.back();
  return exists(join_path(placing.staged, commit)) ? StagingUse::go_on : StagingUse::published;
}

StagingUse take_back_index(const OutPaths& paths, const Json& mark) {
  if (index_use(paths, mark) == StagingUse::published) return StagingUse::published;
  Placing placing = read_mark(paths, mark);
  const std::string& commit = placing.index.files.back();
  for (const std::string& file : placing.index.files) {
    if (file == commit) continue;
    if (!exists(join_path(placing.staged, file))) move_file(paths.out, placing.staged, file);
    move_file(placing.old, paths.out, file);
  }
  for (const std::string& file : placing.index.stale) move_file(placing.old, paths.out, file);
  std::ranges::reverse(placing.made);  // those below first
  for (const std::string& directory : placing.made)
    remove_empty_directory(join_path(paths.out, directory));
  sync_names(paths, placing);
  move_file(placing.old, paths.out, commit);
  fsync_directory(paths.out);
  remove_mark(paths);
  return StagingUse::go_on;
}

}  // namespace hfshard
