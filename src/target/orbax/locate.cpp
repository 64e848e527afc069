#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "bytes/files.h"
#include "target/orbax/metadata.h"
#include "target/orbax/open.h"

#include "hfshard/error.h"

namespace hfshard::target::orbax {
namespace {

// Source: google/orbax checkpoint/orbax/checkpoint/_src/path/atomicity.py.
constexpr std::string_view kUnfinished = ".orbax-checkpoint-tmp";
constexpr std::string_view kProcessDirectory = "ocdbt.process_";

bool is_directory(const std::string& path) {
  const auto info = file_info(path);
  return info && info->kind == FileKind::directory;
}

bool has(const std::string& directory, std::string_view name) {
  return exists(join_path(directory, name));
}

// Steps are plain decimal names: "0", "120"; neither "05" nor "step_5".
std::optional<std::uint64_t> step_number(std::string_view name) {
  if (name.empty() || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), value);
  if (result.ec != std::errc() || result.ptr != name.data() + name.size()) return std::nullopt;
  return value;
}

void refuse_unfinished(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  if (name.find(kUnfinished) == std::string_view::npos) return;
  throw Error(ErrorCode::corrupt,
              "an unfinished checkpoint: the name says that its writer never ended")
      .in_file(path);
}

void check_item(const std::string& item) {
  refuse_unfinished(item);
  if (has(item, kManifestFile)) return;
  const std::vector<std::string> names = list_directory(item);
  if (std::ranges::any_of(
          names, [](const std::string& name) { return name.starts_with(kProcessDirectory); })) {
    throw Error(ErrorCode::corrupt,
                "an unfinished checkpoint: its processes wrote their parts, but nobody merged them")
        .in_file(item);
  }
  if (has(item, kTreeFile)) {
    throw Error(ErrorCode::unsupported,
                "a checkpoint without manifest.ocdbt (plain array directories) is not supported")
        .in_file(item);
  }
  throw Error(ErrorCode::not_found, "no manifest.ocdbt: not an Orbax checkpoint").in_file(item);
}

std::string item_of_step(const std::string& step) {
  refuse_unfinished(step);
  // Names that MaxText and Orbax's newer interface give to the tree.
  for (const std::string_view name :
       {kItemDirectory, std::string_view("state"), std::string_view("default")}) {
    if (is_directory(join_path(step, name))) return join_path(step, name);
  }
  throw Error(ErrorCode::not_found, "a step directory without items").in_file(step);
}

bool is_item(const std::string& path) { return has(path, kManifestFile) || has(path, kTreeFile); }

bool is_step(const std::string& path) {
  return has(path, kStepFile) || is_directory(join_path(path, kItemDirectory));
}

std::string highest_step(const std::string& root) {
  std::optional<std::uint64_t> best;
  bool unfinished = false;
  for (const std::string& name : list_directory(root)) {
    unfinished = unfinished || name.find(kUnfinished) != std::string::npos;
    const auto step = step_number(name);
    if (step && (!best || *step > *best) && is_directory(join_path(root, name))) best = step;
  }
  if (best) return join_path(root, std::to_string(*best));
  Error error(ErrorCode::not_found,
              "no Orbax checkpoint: neither an item, a step nor a root directory");
  error.in_file(root);
  if (unfinished) error.hint("there is an unfinished checkpoint, which is not read");
  throw error;
}

}  // namespace

Location locate(const std::string& path) {
  if (!is_directory(path)) {
    throw Error(exists(path) ? ErrorCode::bad_input : ErrorCode::not_found,
                exists(path) ? "a checkpoint is a directory" : "no such directory")
        .in_file(path);
  }
  Location out;
  if (is_item(path)) {
    out.item = path;
    const std::string parent = join_path(path, "..");
    if (has(path, kStepFile)) {
      out.step = path;
    } else if (has(parent, kStepFile)) {
      out.step = parent;
    }
  } else {
    out.step = is_step(path) ? path : highest_step(path);
    out.item = item_of_step(out.step);
  }
  check_item(out.item);
  return out;
}

}  // namespace hfshard::target::orbax
