#include "run/commit/root.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "bytes/local/files.h"

namespace hfshard {
namespace {

void check_root_files(const Plan& plan, const OutPaths& paths) {
  const Beside& beside = plan.catalog().beside;
  for (const std::string& name : beside.root_files) {
    const StorePath place(join_path(paths.out, name));
    if (!place.exists() || place.read() == (beside.root / name).read()) continue;
    throw Error(ErrorCode::conflict, "the root's metadata differ from this source's run")
        .in_file(place.text())
        .hint("the steps of a root must belong to one run; pass another output");
  }
}

// Whether a root has a file of a model with other contents than the source's.
bool differs(const Plan& plan, const std::string& name, const std::string& path) {
  const Catalog& source = plan.catalog();
  const auto found = file_info(path);
  if (name != "config.json") {
    const auto wanted = (source.directory / name).find();
    return wanted && (!found || found->stamp.size_bytes != wanted->identity.size_bytes);
  }
  const std::string& changed = plan.model().config_text;
  const std::string& text = changed.empty() ? source.config_text : changed;
  return !found || found->kind != FileKind::regular || found->stamp.size_bytes != text.size() ||
         read_file(path) != text;
}

}  // namespace

Error other_model(const std::string& directory) {
  return Error(ErrorCode::conflict, "the root's Hugging Face files differ from this source's")
      .in_file(directory)
      .hint("the steps of a root must belong to one model; pass another output");
}

bool has_other_steps(const Plan& plan, const Format& target, const OutPaths& paths) {
  const auto found = target.recognise(paths.out);
  const std::string own = published_step(plan, paths);
  return found && std::ranges::any_of(
                      found->steps, [&](const Found::Step& step) { return step.directory != own; });
}

void check_root(const Plan& plan, const Format& target, const RunOptions& options,
                const OutPaths& paths) {
  check_root_files(plan, paths);
  const std::string& name = plan.files().side_directory;
  const std::string directory = join_path(paths.out, name);
  if (name.empty() || !exists(directory)) return;
  if (!has_other_steps(plan, target, paths)) return;
  const auto is_others = [&](const std::string& file) {
    const std::string path = join_path(directory, file);
    return (exists(path) || !options.overwrite) && differs(plan, file, path);
  };
  if (std::ranges::any_of(plan.catalog().side_files, is_others)) throw other_model(directory);
}

}  // namespace hfshard
