// Publishes in this order. A crash between any two steps leaves the old output or the new one, and
// staging. A stop before step 6 leaves the old one.
//  0. Writes the objects of the source, if the target holds them (carried_objects.cpp).
//  1. Writes the target's metadata files, each under a temporary name, then syncs and renames it. A
//     plan that links writes its links here. With --digests, it then writes all files again with
//     the digests that it read through the index (run/conversion.cpp).
//  2. Copies config, tokenizer and similar files to hf/, or the format's place for them. Copies
//     other items of the step and metadata of the run, if requested. Then writes hfshard.json with
//     a SHA-256 of each of these files.
//  3. Syncs every directory of the staged tree, bottom-up.
//  4. Opens the staged tree with our own reader. Every chunk of every leaf must exist.
//  5. Checks OUT again, since it can have changed meanwhile.
//  6. Notes that the step will leave staging (recover.h). Places metadata of the run. Publishes
//  with
//     one rename (with --overwrite, an exchange), and syncs the parent.
//  7. Removes the staging directory. Only this and `clean` delete anything.
// An index in place has its own protocol instead of step 6: in_place.cpp.

#include "run/commit/publish.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"
#include "base/version.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "mapping/tables/scheme_defaults.h"
#include "run/commit/carried_objects.h"
#include "run/commit/in_place.h"
#include "run/commit/linked_files.h"
#include "run/commit/recover.h"
#include "run/commit/root.h"
#include "run/engine/sources.h"
#include "run/engine/stop.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

Json custom_metadata(const Plan& plan, const std::string& root_digest) {
  Json custom;
  if (const auto& structure = plan.model().structure) {  // what the source says of itself stays
    if (structure->attributes.is_object()) custom = structure->attributes;
  } else {
    custom[stacked_flag(plan.model().scheme)] = plan.model().stacked;
  }
  Json& ours = custom["hfshard"];
  ours["plan_id"] = plan.id();
  ours["root_digest"] = root_digest;
  ours["version"] = kVersion;
  ours["family"] = plan.model().family;
  ours["scheme"] = plan.model().scheme;
  if (!plan.catalog().nested.empty()) ours[kNestedFlag] = true;
  if (!plan.options().tree.item_name.empty()) ours["item"] = plan.options().tree.item_name;
  return custom;
}

// Returns the extra entries that loaders look for, except those that are leaves already.
TreeExtras extras_of(const Model& model) {
  TreeExtras out = tree_extras(model.scheme);
  const auto any = [&](const auto& is) { return std::ranges::any_of(model.leaves, is); };
  if (any([&](const Leaf& leaf) { return leaf.name == out.step; })) out.step.clear();
  const std::string below = out.empty + ".";
  if (any([&](const Leaf& leaf) { return leaf.name.starts_with(below); })) out.empty.clear();
  return out;
}

// Describes how the first mesh of --mesh shards each leaf.
void add_mesh(const Plan& plan, TreeSpec& tree) {
  const Mesh& mesh = plan.meshes().front();
  tree.mesh = mesh.axes;
  for (const Leaf& leaf : plan.model().leaves) {
    ArraySharding sharding{logical_to_mesh_axes(leaf.axes, plan.rules())};
    for (std::vector<std::string>& axes : sharding.mesh_axes) {
      std::erase_if(axes, [&](const std::string& name) {
        return std::ranges::find(mesh.axes, name, &Mesh::Axis::name) == mesh.axes.end();
      });
    }
    tree.shardings.push_back(sharding);
  }
}

// Bytes on their way to a file, of which there may be many.
ByteSink stoppable(const ByteSink& sink, const RunOptions& options) {
  return [&sink, &options](std::span<const std::byte> bytes) {
    check_stop(options);
    sink(bytes);
  };
}

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// Calls `part(offset, size)` for a whole file, piece by piece.
template <typename Part>
void for_each_piece(std::uint64_t size_bytes, const RunOptions& options, const Part& part) {
  for (std::uint64_t at = 0; at < size_bytes; at += kCopyBytes) {
    check_stop(options);
    part(at, std::min<std::uint64_t>(kCopyBytes, size_bytes - at));
  }
}

void copy_file(const StorePath& from, const std::string& to, const RunOptions& options) {
  const std::unique_ptr<SourceFile> file = from.open();
  const SourceFile& source = *file;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCopyBytes, source.size_bytes()));
  write_file_durably(to, [&](const ByteSink& sink) {
    for_each_piece(source.size_bytes(), options, [&](std::uint64_t at, std::uint64_t size) {
      source.read_at(at, std::span(buffer).first(size));
      sink(std::span(buffer).first(size));
    });
    source.check_unchanged();  // or the copy may be half of each
  });
}

bool same_bytes(const std::string& one, const std::string& other, const RunOptions& options) {
  const FileSource a(one);
  const FileSource b(other);
  if (a.size_bytes() != b.size_bytes()) return false;
  std::vector<std::byte> buffer(2 * kCopyBytes);
  bool same = true;
  for_each_piece(a.size_bytes(), options, [&](std::uint64_t at, std::uint64_t size) {
    const auto left = std::span(buffer).first(size);
    const auto right = std::span(buffer).subspan(kCopyBytes, size);
    a.read_at(at, left);
    b.read_at(at, right);
    same = same && std::ranges::equal(left, right);
  });
  return same;
}

void carry_file(const Plan& plan, const StorePath& from, const RunOptions& options,
                const std::string& to) {
  if (plan.options().link && from.local_path()) {
    give_name(linkable_path(from), to, options.shards);
  } else {
    copy_file(from, to, options);
  }
}

// An interrupted publish may have left older ones, or parts of some.
void remove_carried(const Plan& plan, const Format& target, const OutPaths& paths) {
  const std::string& directory = plan.files().side_directory;
  if (!directory.empty()) {
    remove_tree(join_path(paths.tree, directory));
    remove_tree(join_path(paths.tree, directory + ".swap"));
    return;
  }
  for (const std::string& name : list_directory(paths.tree)) {
    if (name != kManifestName && name != kOriginName && !target.writes_name(name))
      remove_tree(join_path(paths.tree, name));
  }
}

void carry_hf_files(const Plan& plan, const RunOptions& options, const std::string& hf) {
  if (plan.catalog().side_files.empty()) return;
  make_directories(hf);
  for (const std::string& name : plan.catalog().side_files) {
    const StorePath from = plan.catalog().directory / name;
    const std::string to = join_path(hf, name);
    make_directories(parent_path(to));
    carry_file(plan, from, options, to);
    if (name != "config.json") continue;
    // It decided what was converted.
    if (read_file(to) != plan.catalog().config_text) throw changed_source(from.text());
    // A new file in its place, which may be the source's by another name.
    const std::string& of_layers = plan.model().config_text;
    if (!of_layers.empty()) write_file_durably(to, of_layers);
  }
}

void copy_files(const StorePath& from, const std::vector<std::string>& names,
                const std::string& directory, const RunOptions& options) {
  for (const std::string& name : names) {
    const std::string to = join_path(directory, name);
    make_directories(parent_path(to));
    copy_file(from / name, to, options);
  }
}

// Files that lay beside the tree of the source lie beside the tree that was made of it.
void copy_beside(const Plan& plan, const RunOptions& options, const OutPaths& paths) {
  const Beside& beside = plan.catalog().beside;
  copy_files(beside.directory, beside.files, paths.step, options);
  for (const std::string& name : beside.empty) make_directories(join_path(paths.step, name));
  copy_files(beside.root, beside.root_files, paths.tree, options);
}

// Puts what the root keeps of the run into an existing root that lacks it; what it has is the same
// (check_output).
void place_root_files(const Plan& plan, const OutPaths& paths) {
  for (const std::string& name : plan.catalog().beside.root_files) {
    const std::string place = join_path(paths.out, name);
    if (exists(place)) continue;
    make_directories(parent_path(place));
    rename_noreplace(join_path(paths.tree, name), place);
    fsync_directory(parent_path(place));
  }
}

// Lists the relative paths of the files of a directory. Links to directories count as files.
void list_files(const std::string& directory, const std::string& below,
                std::vector<std::string>& out) {
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    const std::string own = below.empty() ? name : join_path(below, name);
    const auto info = file_info(path);
    if (info && info->kind == FileKind::directory && !is_symlink(path)) {
      list_files(path, own, out);
    } else {
      out.push_back(own);
    }
  }
}

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> out;
  list_files(directory, "", out);
  std::ranges::sort(out);
  return out;
}

void check_staged(const Format& target, const std::string& step, const RunOptions& options) {
  const auto opened = target.open(as_fetched(step));
  std::uint64_t missing = 0;
  std::string first;
  check_complete(
      *opened,
      [&](std::uint32_t leaf, const Shape& chunk) {
        if (missing++ == 0)
          first =
              fmt::format("{} chunk {}", opened->catalog().tensors[leaf].name, to_string(chunk));
      },
      options.stop);
  check_stop(options);
  if (missing > 0) {
    throw Error(ErrorCode::corrupt,
                missing == 1 ? fmt::format("the staged checkpoint lacks {}", first)
                             : fmt::format("the staged checkpoint lacks {} chunks, the first is {}",
                                           missing, first))
        .in_file(step)
        .hint("this is a bug or a damaged file system; run hfshard clean, then convert again");
  }
}

// Whether hf/ has a file that the staged one would change. Adding files does no harm to other
// steps.
bool changes_files(const std::string& staged, const std::string& hf, const RunOptions& options) {
  const std::vector<std::string> names = files_below(hf);
  return !std::ranges::all_of(names, [&](const std::string& name) {
    const std::string path = join_path(staged, name);
    return exists(path) && same_bytes(path, join_path(hf, name), options);
  });
}

// The way of the staged hf/ into an existing root.
enum class HfPlace { stays, moves, exchanges };

// Returns whether hfshard wrote the hf/ of a root. A file that the new hf/ lacks can be the user's.
bool is_carried(const Format& target, const OutPaths& paths, const std::string& staged,
                const std::string& hf) {
  const auto info = file_info(hf);
  if (is_symlink(hf) || !info || info->kind != FileKind::directory) return false;
  for (const std::string& name : files_below(hf)) {
    const auto file = file_info(join_path(hf, name));
    if (!file || file->kind != FileKind::regular || !exists(join_path(staged, name))) return false;
  }
  const auto found = target.recognise(paths.out);
  return found && std::ranges::any_of(found->steps, [&](const Found::Step& step) {
           return !published_plan_id(target, step.directory).empty();
         });
}

HfPlace hf_place(const Plan& plan, const Format& target, const OutPaths& paths,
                 const RunOptions& options) {
  if (plan.files().side_directory.empty()) return HfPlace::stays;
  const std::string staged = join_path(paths.tree, plan.files().side_directory);
  const std::string hf = join_path(paths.out, plan.files().side_directory);
  if (!exists(staged)) return HfPlace::stays;
  if (!exists(hf)) return HfPlace::moves;
  const auto info = file_info(hf);
  const bool changes =
      !info || info->kind != FileKind::directory || changes_files(staged, hf, options);
  if (!changes && files_below(staged) == files_below(hf)) return HfPlace::stays;
  if (!options.overwrite || (changes && has_other_steps(plan, target, paths))) {
    throw other_model(hf);
  }
  if (is_carried(target, paths, staged, hf)) return HfPlace::exchanges;
  throw Error(ErrorCode::conflict, "the root has an hf/ with files that hfshard didn't write")
      .in_file(hf)
      .hint("move it away; hfshard deletes only what it wrote");
}

// Puts the staged step into an existing root.
void place_step(const Plan& plan, const OutPaths& paths, HfPlace hf_moves) {
  const std::string step = published_step(plan, paths);
  const std::string staged_hf = join_path(paths.tree, plan.files().side_directory);
  const std::string hf = join_path(paths.out, plan.files().side_directory);
  if (hf_moves == HfPlace::moves) rename_noreplace(staged_hf, hf);
  if (hf_moves == HfPlace::exchanges) rename_exchange(staged_hf, hf);
  if (exists(step)) {
    rename_exchange(paths.step, step);
  } else {
    rename_noreplace(paths.step, step);
  }
  fsync_directory(paths.out);
}

// Lists the files of the staged index, and the files of the old index that it doesn't replace.
IndexFiles index_files(const Plan& plan, const Format& target, const OutPaths& paths) {
  IndexFiles out;
  list_files(paths.step, "", out.files);
  for (const std::uint32_t file : plan.linked_files())
    std::erase(out.files, plan.file_path(plan.file_count() + file));
  // The commit file comes last.
  const std::string& last = plan.files().commit_file;
  std::erase(out.files, last);
  out.files.push_back(last);
  if (published_plan_id(target, paths.out).empty()) return out;
  for (std::uint32_t file = plan.file_count();; ++file) {
    const std::string name = plan.files().data_file(file, file + 1);
    if (!exists(join_path(paths.out, name))) return out;
    out.stale.push_back(name);
  }
}

// Only an index is replaced by an index.
void check_names(const OutPaths& paths, const std::vector<std::string>& files) {
  if (exists(join_path(paths.out, files.back()))) return;
  for (const std::string& file : files) {
    if (!exists(join_path(paths.out, file))) continue;
    throw Error(ErrorCode::conflict,
                "the directory has no index, but a file with the name of one of its files")
        .in_file(join_path(paths.out, file))
        .hint("move it away; hfshard deletes only what it wrote");
  }
}

// Throws: conflict (a file of the source changed).
void check_sources(const Plan& plan, const std::vector<CatalogFile>& linked) {
  check_unchanged(plan.catalog().files);
  check_unchanged(linked);
}

void publish_in_place(const Plan& plan, const Format& target, const Staging& staging,
                      const RunOptions& options, const std::vector<CatalogFile>& linked,
                      const std::function<void()>& staged) {
  const OutPaths& paths = staging.paths();
  staged();
  sync_tree(paths.tree);
  check_staged(target, paths.step, options);
  check_sources(plan, linked);
  check_stop(options);
  check_output(plan, target, options);
  const IndexFiles index = index_files(plan, target, paths);
  check_names(paths, index.files);
  place_index(paths, index);
  staging.remove();
}

}  // namespace

bool is_published(const Plan& plan, const Format& target, const OutPaths& paths) {
  return published_plan_id(target, published_step(plan, paths)) == plan.id();
}

bool ended_meanwhile(const Plan& plan, const Format& target, const RunOptions& options,
                     const Staging& staging) {
  const bool is_new = options.workers == 1 && staging.is_empty();
  const bool is_done = is_new && options.resume && is_published(plan, target, staging.paths());
  try {
    if (!is_done) check_output(plan, target, options);
  } catch (const Error&) {  // of whatever kind: nothing was begun
    if (is_new) staging.remove();
    throw;
  }
  if (is_done) staging.remove();
  return is_done;
}

void check_complete(const Checkpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing,
                    const std::atomic<bool>* stop) {
  const Catalog& catalog = opened.catalog();
  for (std::uint32_t leaf = 0; leaf < catalog.tensors.size(); ++leaf) {
    const Shape counts = chunk_counts(catalog.tensors[leaf].shape, catalog.grid_of(leaf).chunk);
    for_each_chunk(counts, [&](const Shape& chunk) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return false;
      if (!opened.has_piece(leaf, chunk)) missing(leaf, chunk);
      return true;
    });
  }
}

void write_index(const Plan& plan, const Placements& placed, const Format& target,
                 const Staging& staging, const RunOptions& options,
                 const std::string& root_digest) {
  TreeSpec tree;
  tree.leaves = &plan.model().leaves;
  tree.grids = &plan.grids();
  tree.files = plan.array_files();
  tree.step = plan.step();
  tree.plan_id = plan.id();
  tree.custom_metadata = custom_metadata(plan, root_digest);
  tree.encoding = plan.options().encoding;
  tree.structure = plan.model().structure;
  if (tree.structure == nullptr) tree.extras = extras_of(plan.model());
  tree.item = plan.files().item;
  if (tree.structure != nullptr && !plan.options().meshes.empty()) add_mesh(plan, tree);
  tree.objects = carried_objects(plan);
  if (plan.model().keeps_nested) tree.nested = &plan.catalog().nested;
  tree.beside = plan.catalog().beside.attributes;
  tree.direct = plan.options().in_place || tree.item.empty();
  for (const SideFile& file : target.metadata(tree, placed)) write_staged(staging, options, file);
}

void write_staged(const Staging& staging, const RunOptions& options, const SideFile& file) {
  const std::string path = join_path(staging.paths().step, file.path);
  make_directories(parent_path(path));
  write_file_durably(path, [&](const ByteSink& sink) { file.write(stoppable(sink, options)); });
}

void publish(const Plan& plan, const Format& target, const Staging& staging,
             const RunOptions& options, const std::vector<CatalogFile>& linked,
             const std::function<void()>& staged) {
  const OutPaths& paths = staging.paths();
  if (plan.options().in_place)
    return publish_in_place(plan, target, staging, options, linked, staged);
  remove_carried(plan, target, paths);
  const std::string& side = plan.files().side_directory;
  carry_hf_files(plan, options, side.empty() ? paths.tree : join_path(paths.tree, side));
  copy_beside(plan, options, paths);
  staged();
  sync_tree(paths.tree);
  check_staged(target, paths.step, options);
  check_sources(plan, linked);
  check_stop(options);
  check_output(plan, target, options);
  const bool absent = out_state(plan, target, paths.out) == OutState::absent;
  const HfPlace hf = absent ? HfPlace::stays : hf_place(plan, target, paths, options);
  mark_publishing(paths);
  if (absent) {
    rename_path(paths.tree, paths.out);  // replaces an empty directory, refuses a full one
  } else {
    place_root_files(plan, paths);
    place_step(plan, paths, hf);
  }
  fsync_directory(paths.parent);
  staging.remove();
}

}  // namespace hfshard
