// Publishing, in this order; a crash between any two lines leaves the old output or the new one,
// and staging:
//  1. the target's metadata files and hfshard.json, each written beside itself, synced and renamed;
//     of a plan that links: the names of the source's files, and with digests what follows from
//     reading them through the index
//  2. hf/: config, tokenizer and generation files
//  3. fsync of every directory of the staged tree, bottom-up
//  4. the staged tree is opened by our own reader; every chunk key of every leaf must be there
//  5. a note that the step is about to leave staging (recover.h), then one rename (an exchange with
//     --overwrite) and fsync of the parent
//  6. the staging directory is removed: the only deletion, and only here and in `clean`
// An index in place has no rename: its files get their names in the source's directory one by one,
// the manifest last, and staging keeps all of them until then.

#include "run/publish.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"
#include "base/version.h"
#include "bytes/files.h"
#include "bytes/output.h"
#include "run/links.h"
#include "run/manifest.h"
#include "run/recover.h"
#include "run/verify.h"

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

void write_side_files(const Plan& plan, const Placements& placed, const Target& target,
                      const std::string& step, const std::vector<Digest128>& sums) {
  TreeSpec tree;
  tree.leaves = &plan.model.leaves;
  tree.grids = &plan.grids;
  tree.step = plan.options.step;
  tree.plan_id = plan.id;
  tree.custom_metadata = custom_metadata(plan, sums);
  tree.encoding = plan.options.encoding;
  tree.with_train_state = plan.model.scheme == "maxtext";
  tree.direct = plan.options.in_place;
  write_file_durably(join_path(step, kManifestName),
                     [&](const ByteSink& sink) { write_manifest(plan, sums, sink); });
  for (const SideFile& file : target.metadata(tree, placed)) {
    const std::string path = join_path(step, file.path);
    make_directories(parent_path(path));
    write_file_durably(path, file.write);
  }
}

void carry_hf_files(const Plan& plan, const RunOptions& options, const std::string& hf) {
  remove_tree(hf);  // an interrupted publish may have exchanged it for an older one
  if (plan.catalog.side_files.empty()) return;
  make_directories(hf);
  const auto info = file_info(plan.catalog.location);
  const std::string directory = info && info->kind == FileKind::directory
                                    ? plan.catalog.location
                                    : parent_path(plan.catalog.location);
  for (const std::string& name : plan.catalog.side_files) {
    const std::string from = join_path(directory, name);
    if (plan.options.link) {
      give_name(from, join_path(hf, name), options.shards);
    } else {
      write_file_durably(join_path(hf, name), read_file(from));
    }
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
  const std::string step = published_step(plan, paths);
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

// The digests of linked leaves, read through the staged index.
void hash_linked(const Plan& plan, const Target& target, const std::string& step,
                 const RunOptions& options, std::vector<Digest128>& sums, Reporter& reporter) {
  const auto opened = target.open(step);
  std::vector<bool> wanted;
  for (std::size_t leaf = 0; leaf < plan.model.leaves.size(); ++leaf)
    wanted.push_back(plan.grids[leaf].linked);
  const OutputDigests found = digest_output(*opened, plan, wanted, options, reporter);
  if (!found.result.differences.empty()) {
    const Difference& first = found.result.differences.front();
    throw Error(ErrorCode::corrupt, first.what).in_file(step).in_tensor(first.leaf);
  }
  for (std::uint32_t t = 0; t < plan.model.transfers.size(); ++t) {
    if (!wanted[plan.model.transfers[t].target]) continue;
    for (std::uint64_t slot = plan.digest_slot(t, 0); slot < plan.digest_slot(t + 1, 0); ++slot)
      sums[slot] = found.sums[slot];
  }
}

// Everything that a staged step lacks beside its data files.
void complete_step(const Plan& plan, const Placements& placed, const Target& target,
                   const std::string& step, const RunOptions& options, std::vector<Digest128>& sums,
                   Reporter& reporter) {
  write_side_files(plan, placed, target, step, sums);
  if (!plan.options.link) return;
  link_shards(plan, step, item_directory(plan, target, step), options.shards);
  if (!plan.options.digests) return;
  hash_linked(plan, target, step, options, sums, reporter);
  write_side_files(plan, placed, target, step, sums);
}

// Relative paths of the files of a directory.
void list_files(const std::string& directory, const std::string& below,
                std::vector<std::string>& out) {
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    const std::string own = below.empty() ? name : join_path(below, name);
    const auto info = file_info(path);
    if (info && info->kind == FileKind::directory) {
      list_files(path, own, out);
    } else {
      out.push_back(own);
    }
  }
}

// Gives the files of a staged index their names in the source's directory.
void place_index(const Plan& plan, const Target& target, const OutPaths& paths) {
  std::vector<std::string> files;
  list_files(paths.step, "", files);
  for (const std::uint32_t file : linked_files(plan))
    std::erase(files, plan.file_path(plan.file_count() + file));
  // What makes the directory a checkpoint comes last.
  const std::string last = target.commit_file();
  std::erase(files, last);
  files.push_back(last);
  for (const std::string& file : files) {
    const std::string to = join_path(paths.out, file);
    const std::string aside = to + ".hfshard";
    make_directories(parent_path(to));
    give_name(join_path(paths.step, file), aside, ShardLinks::hard);
    if (file == last) sync_tree(join_path(paths.out, "d"));
    if (file == last) fsync_directory(paths.out);
    rename_path(aside, to);
  }
  fsync_directory(paths.out);
}

}  // namespace

std::string item_directory(const Plan& plan, const Target& target, const std::string& step) {
  return plan.options.in_place ? step : join_path(step, target.data_root());
}

void check_complete(const OpenedCheckpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing) {
  for (std::uint32_t leaf = 0; leaf < opened.leaves().size(); ++leaf) {
    const OpenedLeaf& info = opened.leaves()[leaf];
    for_each_chunk(chunk_counts(info.shape, info.chunk_shape), [&](const Shape& chunk) {
      if (!opened.has_chunk(leaf, chunk)) missing(leaf, chunk);
      return true;
    });
  }
}

void publish(const Plan& plan, const Placements& placed, const Target& target,
             const Staging& staging, const RunOptions& options, std::vector<Digest128>& sums,
             Reporter& reporter) {
  const OutPaths& paths = staging.paths();
  if (plan.options.in_place) {
    complete_step(plan, placed, target, paths.step, options, sums, reporter);
    sync_tree(paths.tree);
    check_staged(target, paths.step);
    place_index(plan, target, paths);
    remove_staging(paths);
    fsync_directory(paths.parent);
    return;
  }
  const OutState before = out_state(paths.out, plan.options.step);
  const bool done_before = before == OutState::step && !options.overwrite;
  if (done_before || before == OutState::foreign) check_output(plan, options);
  complete_step(plan, placed, target, paths.step, options, sums, reporter);
  carry_hf_files(plan, options, join_path(paths.tree, "hf"));
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
