#include "service/run_directory.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "run/commit/unfinished.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Source: AI-Hypercomputer/maxtext src/maxtext/configs (checkpoint_dir); pytorch/torchtitan
// torchtitan/config (checkpoint.folder); huggingface/accelerate src/accelerate/utils/fsdp_utils.py
// (save_fsdp_model, one directory for each model).
constexpr std::array<std::string_view, 3> kPatterns{"checkpoints", "checkpoint",
                                                    "pytorch_model_fsdp_[0-9]*"};
constexpr std::string_view kOfAccelerate = kPatterns.back();

bool is_tree_of_arrays(const std::string& place) {
  return is_directory(place) && tree_format(place) != nullptr;
}

std::vector<std::string> trees_below(const std::string& place,
                                     const std::vector<std::string>& names,
                                     std::string_view pattern) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (glob_match(pattern, name) && is_tree_of_arrays(join_path(place, name))) out.push_back(name);
  }
  return out;
}

std::vector<std::string> known_below(const std::string& place,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string_view pattern : kPatterns)
    std::ranges::move(trees_below(place, names, pattern), std::back_inserter(out));
  return out;
}

// Returns the first few directories below a place that are checkpoints or runs, with any name. None
// if all are models: another message covers those.
std::vector<std::string> checkpoints_in(const std::string& place,
                                        const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out;
  bool has_tree = false;
  for (const std::string& name : names) {
    const StorePath below = join_path(place, name);
    if (out.size() == kMost) break;
    if (name.starts_with('.') || !below.is_directory() || below.is_closed()) continue;
    const bool is_tree =
        tree_format(below) != nullptr || !known_below(below.name(), below.list()).empty();
    has_tree = has_tree || is_tree;
    if (is_tree || recognise(below)) out.push_back(join_path(place, name));
  }
  return has_tree ? out : std::vector<std::string>();
}

}  // namespace

std::string checkpoint_of_run(const std::string& place) {
  if (!is_directory(place) || StorePath(place).is_closed() || in_staging(place) || recognise(place))
    return place;
  const std::vector<std::string> names = list_directory(place);
  const std::vector<std::string> found = known_below(place, names);
  if (found.size() == 1) return join_path(place, found.front());
  if (found.empty()) {
    const std::vector<std::string> below = checkpoints_in(place, names);
    if (below.empty()) return place;
    throw Error(ErrorCode::not_found, "the directory isn't a checkpoint")
        .in_file(place)
        .hint(hint_of_below(below));
  }
  throw Error(ErrorCode::bad_input,
              fmt::format("the directory has {} checkpoints: {}", found.size(), join(found, ", ")))
      .in_file(place)
      .hint(fmt::format("name one of them: {}", join_path(place, found.front())));
}

StorePath model_place(const StorePath& place) {
  const std::string name = entry_name(place.text());
  return place.local_path() && glob_match(kOfAccelerate, name)
             ? StorePath(parent_path(place.text()))
             : place;
}

SourceName in_run(SourceName source) {
  std::string found = checkpoint_of_run(source.text);
  if (found == source.text) return source;
  std::vector<std::string> others = list_directory(source.text);
  const std::vector<std::string> copied = model_side_files(source.text);
  std::erase_if(others, [&](const std::string& name) {
    return join_path(source.text, name) == found || name.starts_with('.') ||
           std::ranges::find(copied, name) != copied.end();
  });
  if (source.hub.note) {
    source.hub.note(fmt::format("reading {}{}", found,
                                others.empty() ? "" : "; not read: " + quoted_list(others)));
  }
  source.text = std::move(found);
  return source;
}

}  // namespace hfshard
