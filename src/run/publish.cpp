// Publishing, in this order; a crash between any two lines leaves the old output or the new one,
// and staging:
//  1. the target's metadata files and hfshard.json, each written beside itself, synced and renamed
//  2. hf/: config, tokenizer and generation files
//  3. fsync of every directory of the staged tree, bottom-up
//  4. the staged tree is opened by our own reader; every chunk key of every leaf must be there
//  5. a note that the step is about to leave staging (recover.h), then one rename (an exchange with
//     --overwrite) and fsync of the parent
//  6. the staging directory is removed: the only deletion, and only here and in `clean`

#include "run/publish.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"
#include "base/version.h"
#include "bytes/files.h"
#include "bytes/output.h"
#include "run/manifest.h"
#include "run/recover.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

Json custom_metadata(const Plan& plan, const std::vector<Digest128>& sums) {
  Json custom;
  custom["scan_layers"] = plan.model.stacked;
  Json& ours = custom["hfshard"];
  ours["plan_id"] = plan.id;
  ours["root_digest"] = root_digest(plan, sums);
  ours["version"] = kVersion;
  ours["family"] = plan.model.family;
  ours["scheme"] = plan.model.scheme;
  return custom;
}

void write_side_files(const Plan& plan, const Target& target, const std::string& step,
                      const std::vector<Digest128>& sums) {
  TreeSpec tree;
  tree.leaves = &plan.model.leaves;
  tree.grids = &plan.grids;
  tree.step = plan.options.step;
  tree.plan_id = plan.id;
  tree.custom_metadata = custom_metadata(plan, sums);
  tree.checksum = plan.options.checksum;
  tree.with_train_state = plan.model.scheme == "maxtext";
  write_file_durably(join_path(step, kManifestName),
                     [&](const ByteSink& sink) { write_manifest(plan, sums, sink); });
  for (const SideFile& file : target.metadata(tree, plan)) {
    const std::string path = join_path(step, file.path);
    make_directories(parent_path(path));
    write_file_durably(path, file.write);
  }
}

void carry_hf_files(const Plan& plan, const std::string& hf) {
  remove_tree(hf);  // an interrupted publish may have exchanged it for an older one
  if (plan.catalog.side_files.empty()) return;
  make_directories(hf);
  const auto info = file_info(plan.catalog.location);
  const std::string directory = info && info->kind == FileKind::directory
                                    ? plan.catalog.location
                                    : parent_path(plan.catalog.location);
  for (const std::string& name : plan.catalog.side_files) {
    const std::string text = read_file(join_path(directory, name));
    write_file_durably(join_path(hf, name), text);
  }
}

void sync_tree(const std::string& directory) {
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    const auto info = file_info(path);
    if (info && info->kind == FileKind::directory) sync_tree(path);
  }
  fsync_directory(directory);
}

// Names and bytes of two flat directories agree.
bool same_files(const std::string& a, const std::string& b) {
  const std::vector<std::string> names = list_directory(a);
  if (names != list_directory(b)) return false;
  return std::ranges::all_of(names, [&](const std::string& name) {
    return read_file(join_path(a, name)) == read_file(join_path(b, name));
  });
}

void check_staged(const Target& target, const std::string& step) {
  const auto opened = target.open(step);
  std::uint64_t missing = 0;
  std::string first;
  check_complete(*opened, [&](std::uint32_t leaf, const Shape& chunk) {
    if (missing++ == 0)
      first = fmt::format("{} chunk {}", opened->leaves()[leaf].path, to_string(chunk));
  });
  if (missing > 0) {
    throw Error(
        ErrorCode::corrupt,
        fmt::format("the staged checkpoint lacks {} chunks, the first is {}", missing, first))
        .in_file(step)
        .hint("this is a bug or a damaged file system; hfshard clean and convert again");
  }
}

// Puts the staged step into an existing root.
void place_step(const Plan& plan, const OutPaths& paths, bool overwrite) {
  const std::string step = join_path(paths.out, std::to_string(plan.options.step));
  const std::string staged_hf = join_path(paths.tree, "hf");
  const std::string hf = join_path(paths.out, "hf");
  if (exists(staged_hf)) {
    if (!exists(hf)) {
      rename_noreplace(staged_hf, hf);
    } else if (!same_files(staged_hf, hf)) {
      if (!overwrite) {
        throw Error(ErrorCode::conflict,
                    "the root carries other HuggingFace files than this source")
            .in_file(hf)
            .hint("steps of one root belong to one model; choose another output");
      }
      rename_exchange(staged_hf, hf);
    }
  }
  if (exists(step)) {
    rename_exchange(paths.step, step);
  } else {
    rename_noreplace(paths.step, step);
  }
  fsync_directory(paths.out);
}

}  // namespace

void check_complete(const OpenedCheckpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing) {
  for (std::uint32_t leaf = 0; leaf < opened.leaves().size(); ++leaf) {
    const OpenedLeaf& info = opened.leaves()[leaf];
    const Shape counts = chunk_counts(info.shape, info.chunk_shape);
    Shape chunk;
    for (std::size_t d = 0; d < counts.rank(); ++d) chunk.push_back(0);
    for (std::uint64_t left = counts.numel(); left > 0; --left) {
      if (!opened.has_chunk(leaf, chunk)) missing(leaf, chunk);
      for (std::size_t d = counts.rank(); d-- > 0;) {
        if (++chunk[d] < counts[d]) break;
        chunk[d] = 0;
      }
    }
  }
}

void publish(const Plan& plan, const Target& target, const Staging& staging,
             const RunOptions& options, const std::vector<Digest128>& sums) {
  const OutPaths& paths = staging.paths();
  const OutState before = out_state(paths.out, plan.options.step);
  const bool done_before = before == OutState::step && !options.overwrite;
  if (done_before || before == OutState::foreign) check_output(plan, options);
  write_side_files(plan, target, paths.step, sums);
  carry_hf_files(plan, join_path(paths.tree, "hf"));
  sync_tree(paths.tree);
  check_staged(target, paths.step);
  mark_publishing(paths);
  if (before == OutState::absent) {
    rename_path(paths.tree, paths.out);  // replaces an empty directory, refuses a full one
  } else {
    place_step(plan, paths, options.overwrite);
  }
  fsync_directory(paths.parent);
  remove_staging(paths);
  fsync_directory(paths.parent);
}

}  // namespace hfshard
