#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "bytes/local/files.h"
#include "format/orbax/array_directories.h"
#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/other_files.h"
#include "format/orbax/tree.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Source: google/orbax checkpoint/orbax/checkpoint/_src/path/atomicity.py.
constexpr std::string_view kUnfinished = ".orbax-checkpoint-tmp";
constexpr std::string_view kProcessDirectory = "ocdbt.process_";
// Names the item that is being deleted. It is the last file that Orbax deletes. Source:
// google/orbax checkpoint/orbax/checkpoint/experimental/v1/_src/deletion/metadata.py (0.12.8).
constexpr std::string_view kDeletionFile = "_CHECKPOINT_DELETION";
// Marks a step of Orbax's v1 interface, which also loads steps without it. Source: google/orbax
// checkpoint/orbax/checkpoint/experimental/v1/_src/layout/checkpoint_layout.py (0.12.8).
constexpr std::string_view kMarkFile = "orbax.checkpoint";
// Trees that trainers save next to a model. Sources: AI-Hypercomputer/maxtext src/maxtext/
// training_engine/checkpointing.py save_checkpoint; google/tunix tunix/sft/checkpoint_manager.py
// save.
constexpr std::array<std::string_view, 4> kBesideModel = {
    "optimizer_state", "optimizer", "accumulated_metrics", "accumulated_grads"};

bool has(const StorePath& directory, std::string_view name) { return (directory / name).exists(); }

bool is_unfinished(std::string_view name) {
  return name.find(kUnfinished) != std::string_view::npos;
}

bool is_decimal(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

void refuse_unfinished(const StorePath& place) {
  std::string path = place.text();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!is_unfinished(entry_name(path))) return;
  throw Error(ErrorCode::corrupt,
              "an unfinished checkpoint: by its name, its writer never finished")
      .in_file(path);
}

bool is_tree(const StorePath& path) { return has(path, kManifestFile) || has(path, kTreeFile); }

// Older trees have no tree file, only directories of arrays.
bool is_item(const StorePath& path) {
  return is_tree(path) || !find_array_directories(path, true).empty();
}

bool has_parts(const StorePath& item) {
  const std::vector<std::string> names = item.list();
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.starts_with(kProcessDirectory); });
}

// Returns the error for an invalid record of a deletion.
Error bad_deletion(const StorePath& record) {
  Error out(ErrorCode::corrupt, "the record of a deletion that Orbax began can't be read");
  out.in_file(record.text());
  out.hint("run orbax.checkpoint.v1.delete to finish the deletion");
  return out;
}

// Returns whether Orbax has begun to delete the item. Throws: corrupt, io.
bool is_being_deleted(const StorePath& item) {
  return being_deleted(item / "..") == std::optional(entry_name(item.name()));
}

void check_item(const StorePath& item) {
  refuse_unfinished(item);
  if (is_being_deleted(item)) {
    throw Error(ErrorCode::corrupt,
                "Orbax has begun to delete this item, so parts of it may be gone")
        .in_file(item.text())
        .hint(
            "run orbax.checkpoint.v1.delete(STEP, checkpointable_name=NAME) to finish the "
            "deletion, or read another item of the step");
  }
  if (has(item, kManifestFile)) return;
  if (has_parts(item)) {
    throw Error(ErrorCode::corrupt,
                "an unfinished checkpoint: its processes wrote their parts, but didn't merge them")
        .in_file(item.text());
  }
  if (is_item(item)) return;
  throw Error(ErrorCode::not_found, "neither _METADATA nor manifest.ocdbt: not an Orbax checkpoint")
      .in_file(item.text());
}

// Returns whether a name is an entry of a directory, not a path.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

// The plan in a step's metadata.
struct Stated {
  std::string plan_id;
  std::string item = std::string(kItemDirectory);
};

// Ignores metadata that can't be parsed. Opening the step reports them.
Stated stated_plan(const StorePath& step) {
  const StorePath path = step / kStepFile;
  if (!path.exists()) return {};
  try {
    const Json metadata = parse_metadata(path.read(), path.text());
    const Json* custom = metadata.find("custom_metadata");
    const Json* ours = custom ? custom->find("hfshard") : nullptr;
    const Json* id = ours ? ours->find("plan_id") : nullptr;
    const Json* item = ours ? ours->find("item") : nullptr;
    Stated out;
    if (id && id->is_string()) out.plan_id = id->as_string();
    if (item && item->is_string() && is_plain_name(item->as_string())) out.item = item->as_string();
    return out;
  } catch (const Error& error) {  // opening reports it
    if (error.code() == ErrorCode::io) throw;
    return {};
  }
}

// Metadata aren't enough, since an index in place gets its files one by one. Without a plan id,
// hfshard didn't write the step.
Stated plan_of(const StorePath& step) {
  Stated out = stated_plan(step);
  if (out.plan_id.empty()) return out;
  const bool ours =
      is_manifest_of(step / out.item, out.plan_id) || is_manifest_of(step, out.plan_id);
  if (!ours) out.plan_id.clear();
  return out;
}

// Returns whether hfshard can list a directory. One that it can't, such as `lost+found` in a
// volume's root, is no reason to refuse the others.
bool is_open(const StorePath& path) { return path.is_directory() && !path.is_closed(); }

// Returns the names of a step's trees: those that Orbax can load, and unfinished ones.
std::vector<std::string> items_below(const StorePath& step) {
  std::vector<std::string> out;
  const std::optional<std::string> deleted = being_deleted(step);
  for (const std::string& name : step.list()) {
    if (name.starts_with(kProcessDirectory) || is_unfinished(name) || name == deleted) continue;
    const StorePath item = step / name;
    if (is_open(item) && (is_tree(item) || has_parts(item))) out.push_back(name);
  }
  return out;
}

// The names that MaxText, Tunix and Orbax's interfaces give to a model's tree, and those that users
// do. Source: google/orbax checkpoint/orbax/checkpoint/experimental/v1/_src/saving/saving.py
// (`pytree`).
constexpr std::array<std::string_view, 8> kUsual = {
    "pytree", kItemDirectory, "state", "default", "params", "model_params", "train_state", "model"};

std::optional<StorePath> usual_item(const StorePath& step) {
  for (const std::string_view name : kUsual) {
    if ((step / name).is_directory() && !is_being_deleted(step / name)) return step / name;
  }
  return std::nullopt;
}

// Returns the tree that loaders default to, or else the first.
std::string main_item(const std::vector<std::string>& names) {
  const auto found = std::ranges::find_first_of(kUsual, names);
  return found == kUsual.end() ? names.front() : std::string(*found);
}

StorePath item_of_step(const StorePath& step, const Choice& choice) {
  refuse_unfinished(step);
  const std::string& wanted = choice.items;
  std::vector<std::string> names = items_below(step);
  if (!wanted.empty()) {
    if (std::ranges::find(names, wanted) != names.end()) return step / wanted;
    if (being_deleted(step) == wanted) return step / wanted;  // check_item says so
    Error error(ErrorCode::not_found, fmt::format("the step has no item {}", quote(wanted)));
    error.in_file(step.text());
    if ((step / wanted).is_directory()) {
      error = Error(ErrorCode::not_found,
                    fmt::format("the item {} doesn't hold arrays", quote(wanted)));
      error.in_file((step / wanted).text())
          .hint(
              "leave out --items: diff then compares all items, and reshard --items all copies "
              "them");
    } else if (!names.empty()) {
      error.hint(there_are(names));
    }
    throw error;
  }
  const auto leave_out_beside = [&] {
    const auto is_beside = [](const std::string& name) {
      return std::ranges::find(kBesideModel, name) != kBesideModel.end();
    };
    if (!std::ranges::all_of(names, is_beside)) std::erase_if(names, is_beside);
  };
  if (choice.model_alone) leave_out_beside();
  if (names.size() == 1) return step / names[0];
  // A step by hfshard has one main tree. The others are copies.
  if (const Stated ours = plan_of(step);
      !ours.plan_id.empty() && has(step / ours.item, kManifestFile)) {
    return step / ours.item;
  }
  if (names.empty()) {
    if (const auto usual = usual_item(step)) return *usual;
    throw Error(ErrorCode::not_found, "a step directory without items").in_file(step.text());
  }
  if (choice.usual_items) {
    leave_out_beside();
    return step / main_item(names);
  }
  throw Error(ErrorCode::bad_input,
              fmt::format("the step has {} items: {}", names.size(), join(names, ", ")))
      .in_file(step.text())
      .hint(fmt::format("pass --items {} to select one", main_item(names)));
}

// A writer that needs a commit file records when it began, and later when it ended. Source:
// google/orbax checkpoint/orbax/checkpoint/_src/path/atomicity.py, CommitFileTemporaryPath.
bool is_uncommitted(const StorePath& step) {
  if (!has(step, kStepFile) || has(step, kCommitFile)) return false;
  try {
    const Json metadata = parse_metadata((step / kStepFile).read(), (step / kStepFile).text());
    const auto is_time = [&](const char* key) {
      const Json* value = metadata.is_object() ? metadata.find(key) : nullptr;
      return value != nullptr && value->is_number();
    };
    return is_time("init_timestamp_nsecs") && !is_time("commit_timestamp_nsecs");
  } catch (const Error& error) {  // opening reports it
    if (error.code() == ErrorCode::io) throw;
    return false;
  }
}

bool is_step(const StorePath& path) {
  return has(path, kStepFile) || (path / kItemDirectory).is_directory();
}

// Returns whether a directory's contents make it a step, if its name doesn't tell.
bool holds_step(const StorePath& path) {
  return is_open(path) && (is_step(path) || is_item(path) || !items_below(path).empty());
}

// A step in Orbax's name formats: its number, padded or not, possibly after a prefix. Source:
// google/orbax checkpoint/orbax/checkpoint/_src/path/step.py, standard_name_format.
struct StepName {
  std::string prefix;  // with its `_`
  std::uint64_t number = 0;
};

std::optional<StepName> step_name(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::string_view prefix = last == std::string_view::npos ? "" : name.substr(0, last + 1);
  if (!prefix.empty() && !prefix.ends_with('_')) return std::nullopt;
  const auto number = parse_whole(name.substr(prefix.size()));
  if (!number) return std::nullopt;
  return StepName{std::string(prefix), *number};
}

// Returns whether a directory is a step by its name and contents. Plain numbers always count, as
// for Orbax. A padded one can also be empty.
bool counts_as_step(const StorePath& path, const StepName& name) {
  const bool is_plain =
      name.prefix.empty() && entry_name(path.name()) == std::to_string(name.number);
  if (is_plain) return path.is_directory();
  return holds_step(path) || (name.prefix.empty() && is_open(path) && path.list().empty());
}

// Only one kind of name counts: numbers, else those with the only prefix. Padded numbers are of the
// same kind, since a format of fixed length doesn't pad a number that fills it: 099999, 100000.
std::vector<Found::Step> steps_below(const StorePath& root) {
  std::map<std::string, std::vector<Found::Step>> by_prefix;
  for (const std::string& name : root.list()) {
    const StorePath directory = root / name;
    const auto parts = step_name(name);
    if (!parts || !counts_as_step(directory, *parts)) continue;
    by_prefix[parts->prefix].push_back(
        {parts->number, directory.name(), (directory / kStepFile).is_file()});
  }
  if (by_prefix.empty() || (by_prefix.size() > 1 && !by_prefix.contains(""))) return {};
  std::vector<Found::Step> out = std::move(by_prefix.begin()->second);  // "" comes first
  // 5 comes before 005, and is found by its number.
  std::ranges::sort(out, [](const Found::Step& a, const Found::Step& b) {
    return std::tuple(a.number, a.directory.size(), a.directory) <
           std::tuple(b.number, b.directory.size(), b.directory);
  });
  return out;
}

// Returns the first few directories that hold steps, with any name.
std::vector<std::string> steps_of_any_name(const StorePath& root) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out;
  for (const std::string& name : root.list()) {
    if (out.size() < kMost && holds_step(root / name)) out.push_back(name);
  }
  return out;
}

StorePath step_at(const StorePath& path, std::optional<std::uint64_t> number) {
  if (is_step(path)) {
    if (number) step_numbered({}, *number, path);
    return path;
  }
  const std::vector<Found::Step> steps = steps_below(path);
  if (number) return path.at(step_numbered(steps, *number, path).directory);
  if (!steps.empty()) return path.at(steps.back().directory);
  if (!items_below(path).empty()) return path;
  Error error(ErrorCode::not_found,
              "not an Orbax checkpoint: neither an item, a step nor a root directory");
  error.in_file(path.text());
  if (std::ranges::any_of(path.list(), is_unfinished)) {
    error.hint("an unfinished checkpoint is there, which hfshard doesn't read");
  } else if (const auto names = steps_of_any_name(path); !names.empty()) {
    error.hint("pass one of the directories below it: " + join(names, ", "));
  }
  throw error;
}

// An item's metadata can be in it, or in the step directory around it.
std::optional<StorePath> step_of_item(const StorePath& item) {
  const StorePath parent = item / "..";
  if (has(item, kStepFile)) return item;
  return has(parent, kStepFile) ? std::optional(parent) : std::nullopt;
}

bool looks_like_orbax(const StorePath& path) {
  const std::vector<std::string> names = path.list();
  const auto any = [&](const auto& is) { return std::ranges::any_of(names, is); };
  if (is_item(path) || has(path, kStepFile)) return true;
  if (any([](const std::string& name) {
        return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
      })) {
    return false;  // a converted model: other names are arbitrary
  }
  return any([&](const std::string& name) {
    if (is_unfinished(name) || name.starts_with(kProcessDirectory)) return true;
    const StorePath below = path / name;
    if (!below.is_directory()) return false;
    if (name == kItemDirectory || is_decimal(name)) return true;
    return is_open(below) && (is_tree(below) || (step_name(name) && holds_step(below)));
  });
}

// Adds a file, or a directory with all that is below it. `name` is its path below the step. Throws:
// bad_input (neither a file nor a directory), io.
void add_entry(const std::string& name, Beside& out) {
  const StorePath path = out.directory / name;
  if (path.is_file()) {
    out.files.push_back(name);
  } else if (path.is_directory()) {
    const std::vector<std::string> names = path.list();
    if (names.empty()) out.empty.push_back(name);
    for (const std::string& below : names) add_entry(fmt::format("{}/{}", name, below), out);
  } else {
    throw Error(ErrorCode::bad_input, "neither a file nor a directory, so hfshard can't copy it")
        .in_file(path.text());
  }
}

}  // namespace

std::optional<std::string> being_deleted(const StorePath& step) {
  const StorePath record = step / kDeletionFile;
  if (!record.exists()) return std::nullopt;
  if (!record.is_file()) throw bad_deletion(record);
  std::optional<std::string> out;
  try {
    const Json text = parse_metadata(record.read(), record.text());
    const Json* name = text.is_object() ? text.find("checkpointable_name") : nullptr;
    if (name != nullptr && name->is_string()) out = name->as_string();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
  }
  if (!out || !is_plain_name(*out)) throw bad_deletion(record);
  return out;
}

std::optional<Found> find_checkpoint(const StorePath& path) {
  if (!path.is_directory() || !looks_like_orbax(path)) return std::nullopt;
  Found out;
  out.directory = path.name();
  if (is_item(path)) {
    if (!has(path, kStepFile) && has(path.parent(), kStepFile))
      out.directory = path.parent().name();
  } else if (!is_step(path)) {
    out.steps = steps_below(path);
    if (!out.steps.empty()) out.directory = out.steps.back().directory;
  }
  out.plan_id = plan_of(path.at(out.directory)).plan_id;
  return out;
}

std::string why_incomplete(const StorePath& step) {
  if (step.list().empty()) return "is empty";
  if (is_uncommitted(step)) return "was never committed: its writer didn't finish";
  const auto is_unmerged = [](const StorePath& item) {
    return has_parts(item) && !has(item, kManifestFile);
  };
  std::vector<std::string> names = items_below(step);
  const bool unmerged =
      is_unmerged(step) ||
      std::ranges::any_of(names, [&](const std::string& name) { return is_unmerged(step / name); });
  if (unmerged) return "is unfinished: its processes wrote their parts, but didn't merge them";
  const auto usual = usual_item(step);
  if (names.empty() && !is_item(step) && !(usual && is_item(*usual)))
    return "doesn't hold a tree of arrays";
  return {};
}

Beside find_beside(const StorePath& path, const Choice& choice) {
  const Location at = locate(path, choice);
  Beside out;
  if (!at.step) return out;
  // The step of an item is ITEM/.. then.
  const bool is_below = entry_name(at.step->name()) == "..";
  out.root = is_below ? *at.step / ".." : at.step->parent();
  out.root_files = find_root_files(out.root);
  if (at.item == *at.step) return out;
  out.directory = *at.step;
  const std::optional<std::string> deleted = being_deleted(*at.step);
  for (const std::string& name : at.step->list()) {
    if (name == entry_name(at.item.name()) || name == kStepFile || name == kCommitFile) continue;
    if (name == kDeletionFile || name == deleted) continue;
    if (name.starts_with(kRecordPrefix)) continue;  // describes this tree only
    add_entry(name, out);
  }
  if (!has(*at.step, kStepFile)) return out;
  const StorePath metadata = *at.step / kStepFile;
  out.attributes = parse_metadata(metadata.read(), metadata.text());
  const Json* handlers = out.attributes.find("item_handlers");
  if (handlers == nullptr || !handlers->is_object()) return out;
  out.attributes["item_handlers"].object().erase(entry_name(at.item.name()));
  if (deleted) out.attributes["item_handlers"].object().erase(*deleted);
  return out;
}

bool is_item_place(const StorePath& path) { return path.is_directory() && is_item(path); }

bool is_step_with_items(const StorePath& path) {
  return path.is_directory() && !is_item(path) && !items_below(path).empty();
}

std::vector<std::string> find_other_items(const StorePath& path, const Choice& choice) {
  const Location at = locate(path, choice);
  std::vector<std::string> out;
  if (!at.step || at.item == *at.step || at.item == path) return out;
  const std::optional<std::string> deleted = being_deleted(*at.step);
  for (const std::string& name : at.step->list()) {
    const StorePath below = *at.step / name;
    const bool is_known = name == kStepFile || name == kCommitFile || name == kDeletionFile ||
                          name == kMarkFile || name.starts_with(kRecordPrefix);
    if (!(below == at.item) && name != deleted && !is_unfinished(name) && !is_known &&
        (below.is_file() || is_open(below)))
      out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

Location locate(const StorePath& path, const Choice& choice) {
  if (!path.is_directory()) {
    throw Error(path.exists() ? ErrorCode::bad_input : ErrorCode::not_found,
                path.exists() ? "a checkpoint is a directory" : "no such directory")
        .in_file(path.text());
  }
  Location out;
  if (is_item(path)) {
    if (choice.step) step_numbered({}, *choice.step, path);
    if (!choice.items.empty()) {
      throw Error(ErrorCode::usage, "--items selects an item, and this already is an item")
          .in_file(path.text());
    }
    out.item = path;
    out.step = step_of_item(path);
  } else {
    out.step = step_at(path, choice.step);
    // A tree that was saved directly into the step's directory has no item.
    const bool direct = choice.items.empty() && is_item(*out.step);
    out.item = direct ? *out.step : item_of_step(*out.step, choice);
  }
  check_item(out.item);
  return out;
}

}  // namespace hfshard::format::orbax
