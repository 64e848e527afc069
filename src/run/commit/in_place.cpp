// An index in place doesn't have its own directory, so one rename can't exchange it. Its files move
// one by one, each with a rename. So each file is always in exactly one place, and the places show
// the progress:
//  1. hfshard makes directories for replaced files (`old/` in staging), and a durable note of all
//     names.
//  2. The old commit file moves to `old/`. Now the directory isn't a checkpoint for any reader.
//  3. For every other file, the old one moves to `old/`, and the new one to its place.
//  4. After a sync of all directories, the new commit file moves to its place. It is published.
// If a run finds the note, and the new commit file still in staging, it moves everything back. It
// does so in the opposite order, with the old commit file last. So a commit file is never next to
// files of another index, and one of the two indexes is always complete. Recovery takes only the
// staged files from OUT, by their inodes, and never replaces a file there, since a note can be
// damaged or forged.

#include "run/commit/in_place.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/inner_path.h"
#include "base/text.h"
#include "bytes/local/files.h"

#include "hfshard/error.h"

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

// The contents of a note.
struct Placing {
  std::string staged;  // where the new files come from
  std::string old;     // and where the old ones go
  IndexFiles index;
  std::vector<std::string> made;      // directories that OUT did not have
  std::vector<std::uint64_t> inodes;  // of the new files; none in notes of before 0.2.0
};

std::vector<std::string> all_files(const IndexFiles& index) {
  std::vector<std::string> out = index.files;
  out.insert(out.end(), index.stale.begin(), index.stale.end());
  return out;
}

// A directory that is a link leads to what is neither staged nor OUT's.
std::optional<std::string> linked_directory(const Placing& placing, const OutPaths& paths) {
  for (const std::string& directory : directories_of(all_files(placing.index))) {
    for (const std::string& root : {paths.out, placing.staged, placing.old}) {
      std::string path = join_path(root, directory);
      if (is_symlink(path)) return path;
    }
  }
  return std::nullopt;
}

Placing read_mark(const OutPaths& paths, const Json& mark) {
  Placing out{noted_step(paths, mark),
              join_path(paths.staging, kOld),
              {strings(mark.at("files")), strings(mark.at("stale"))},
              strings(mark.at("made")),
              {}};
  const Json* inodes = mark.find("inodes");
  if (inodes != nullptr) {
    for (const Json& inode : inodes->as_array()) out.inodes.push_back(inode.as_uint());
  }
  if (out.index.files.empty()) throw bad_mark(paths, "it names no file");
  if (inodes != nullptr && out.inodes.size() != out.index.files.size())
    throw bad_mark(
        paths, fmt::format("{} inodes for {} files", out.inodes.size(), out.index.files.size()));
  const std::vector<std::string> names = all_files(out.index);
  for (const std::string& name : names) {
    if (!is_inner_path(name))
      throw bad_mark(paths, fmt::format("{} leads outside the output", quote(name)));
  }
  const std::set<std::string> directories = directories_of(names);
  for (const std::string& made : out.made) {
    if (!directories.contains(made))
      throw bad_mark(paths, fmt::format("no file needs the directory {}", quote(made)));
  }
  if (is_symlink(out.old)) throw bad_mark(paths, fmt::format("{} is a link", quote(out.old)));
  if (const auto link = linked_directory(out, paths))
    throw bad_mark(paths, fmt::format("{} is a link", quote(*link)));
  return out;
}

Placing prepare(const OutPaths& paths, const IndexFiles& index) {
  Placing out{paths.step, join_path(paths.staging, kOld), index, {}, {}};
  remove_tree(out.old);  // of a run that ended before it had noted anything
  make_directories(out.old);
  if (const auto link = linked_directory(out, paths)) {
    throw Error(ErrorCode::conflict, "a directory of the index is a link").in_file(*link);
  }
  for (const std::string& directory : directories_of(all_files(index))) {
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
  mark["inodes"] = Json::Array{};
  for (const std::string& file : index.files)
    mark["inodes"].array().emplace_back(inode_of(join_path(paths.step, file)));
  write_mark(paths, mark);
  return out;
}

// Without inodes nothing tells a file that hfshard moved into OUT from anybody's.
Error older_mark(const OutPaths& paths) {
  return Error(ErrorCode::unsupported,
               "an older hfshard wrote the note of an interrupted publish, without inodes")
      .in_file(paths.staging)
      .hint(
          fmt::format("repeat the command with the hfshard that began it; or move the files of {} "
                      "back into {}, and then: rm -r {}",
                      shell_word(join_path(paths.staging, kOld)), shell_word(paths.out),
                      shell_word(paths.staging)));
}

void move_file(const std::string& from, const std::string& to, const std::string& file) {
  if (exists(join_path(from, file))) rename_path(join_path(from, file), join_path(to, file));
}

// Undoes such a move.
void take_back_file(const std::string& from, const std::string& to, const std::string& file) {
  if (exists(join_path(from, file))) rename_noreplace(join_path(from, file), join_path(to, file));
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
  if (placing.inodes.empty()) throw older_mark(paths);
  const std::string& commit = placing.index.files.back();
  for (std::size_t i = 0; i < placing.index.files.size(); ++i) {
    const std::string& file = placing.index.files[i];
    if (file == commit) continue;
    if (!exists(join_path(placing.staged, file)) &&
        inode_of(join_path(paths.out, file)) == placing.inodes[i]) {
      take_back_file(paths.out, placing.staged, file);
    }
    take_back_file(placing.old, paths.out, file);
  }
  for (const std::string& file : placing.index.stale) take_back_file(placing.old, paths.out, file);
  std::ranges::reverse(placing.made);  // those below first
  for (const std::string& directory : placing.made)
    remove_empty_directory(join_path(paths.out, directory));
  sync_names(paths, placing);
  take_back_file(placing.old, paths.out, commit);
  fsync_directory(paths.out);
  remove_mark(paths);
  return StagingUse::go_on;
}

}  // namespace hfshard
