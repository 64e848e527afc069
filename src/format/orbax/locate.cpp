#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "format/orbax/array_directories.h"
#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/tree.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Source: google/orbax checkpoint/orbax/checkpoint/_src/path/atomicity.py.
constexpr std::string_view kUnfinished = ".orbax-checkpoint-tmp";
constexpr std::string_view kProcessDirectory = "ocdbt.process_";

bool has(const StorePath& directory, std::string_view name) { return (directory / name).exists(); }

// Steps are plain decimal names: "0", "120"; neither "05" nor "step_5".
std::optional<std::uint64_t> step_number(std::string_view name) {
  if (name.empty() || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), value);
  if (result.ec != std::errc() || result.ptr != name.data() + name.size()) return std::nullopt;
  return value;
}

bool is_unfinished(std::string_view name) {
  return name.find(kUnfinished) != std::string_view::npos;
}

bool is_decimal(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

void refuse_unfinished(const StorePath& place) {
  std::string path = place.text();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  if (!is_unfinished(name)) return;
  throw Error(ErrorCode::corrupt,
              "an unfinished checkpoint: the name says that its writer never ended")
      .in_file(path);
}

bool is_tree(const StorePath& path) { return has(path, kManifestFile) || has(path, kTreeFile); }

// Older trees have no file that says so, only directories of arrays.
bool is_item(const StorePath& path) {
  return is_tree(path) || !find_array_directories(path, true).empty();
}

bool has_parts(const StorePath& item) {
  const std::vector<std::string> names = item.list();
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.starts_with(kProcessDirectory); });
}

void check_item(const StorePath& item) {
  refuse_unfinished(item);
  if (has(item, kManifestFile)) return;
  if (has_parts(item)) {
    throw Error(ErrorCode::corrupt,
                "an unfinished checkpoint: its processes wrote their parts, but nobody merged them")
        .in_file(item.text());
  }
  if (is_item(item)) return;
  throw Error(ErrorCode::not_found, "neither _METADATA nor manifest.ocdbt: not an Orbax checkpoint")
      .in_file(item.text());
}

// What metadata say of the plan that wrote them. What cannot be read is no reason to recognise
// nothing.
std::string stated_plan_id(const StorePath& step) {
  const StorePath path = step / kStepFile;
  if (!path.exists()) return {};
  try {
    const Json metadata = parse_metadata(path.read(), path.text());
    const Json* custom = metadata.find("custom_metadata");
    const Json* ours = custom ? custom->find("hfshard") : nullptr;
    const Json* id = ours ? ours->find("plan_id") : nullptr;
    return id && id->is_string() ? id->as_string() : std::string();
  } catch (const Error& error) {  // opening says what is wrong with it
    if (error.code() == ErrorCode::io) throw;
    return {};
  }
}

// Metadata alone say nothing: an index in place gets its files one by one.
std::string plan_id_of(const StorePath& step) {
  std::string id = stated_plan_id(step);
  if (id.empty()) return id;
  const bool ours = is_manifest_of(step / kItemDirectory, id) || is_manifest_of(step, id);
  return ours ? id : std::string();
}

// A directory that may be looked into. Others are no reason to refuse what lies beside them:
// `lost+found` stands in the root of a volume.
bool is_open(const StorePath& path) { return path.is_directory() && !path.is_closed(); }

// Names of the trees below a step: those that Orbax can load, and those that were to become such.
std::vector<std::string> items_below(const StorePath& step) {
  std::vector<std::string> out;
  for (const std::string& name : step.list()) {
    if (name.starts_with(kProcessDirectory) || is_unfinished(name)) continue;
    const StorePath item = step / name;
    if (is_open(item) && (is_tree(item) || has_parts(item))) out.push_back(name);
  }
  return out;
}

// Names that MaxText and Orbax's interfaces give to the tree of a step.
std::optional<StorePath> usual_item(const StorePath& step) {
  for (const std::string_view name : {kItemDirectory, std::string_view("state"),
                                      std::string_view("default"), std::string_view("params")}) {
    if ((step / name).is_directory()) return step / name;
  }
  return std::nullopt;
}

StorePath item_of_step(const StorePath& step, const Choice& choice) {
  refuse_unfinished(step);
  const std::string& wanted = choice.items;
  const std::vector<std::string> names = items_below(step);
  if (!wanted.empty()) {
    if (std::ranges::find(names, wanted) != names.end()) return step / wanted;
    Error error(ErrorCode::not_found, fmt::format("the step has no item {}", quote(wanted)));
    error.in_file(step.text());
    if (!names.empty()) error.hint(there_are(names));
    throw error;
  }
  if (names.size() == 1) return step / names[0];
  // What this program wrote is one tree; the others were copied along with it.
  if (has(step / kItemDirectory, kManifestFile) && !plan_id_of(step).empty())
    return step / kItemDirectory;
  if (names.empty() || choice.usual_items) {
    if (const auto usual = usual_item(step)) return *usual;
  }
  if (names.empty())
    throw Error(ErrorCode::not_found, "a step directory without items").in_file(step.text());
  throw Error(ErrorCode::bad_input,
              fmt::format("the step has {} items: {}", names.size(), join(names, ", ")))
      .in_file(step.text())
      .hint(fmt::format("choose one with --items {}", names[0]));
}

bool is_step(const StorePath& path) {
  return has(path, kStepFile) || (path / kItemDirectory).is_directory();
}

// Whether a directory whose name does not tell is a step by what it holds.
bool holds_step(const StorePath& path) {
  return is_open(path) && (is_step(path) || is_item(path) || !items_below(path).empty());
}

// What Orbax's name formats make of a step: its number, alone or behind a prefix, padded or not.
// Source: google/orbax checkpoint/orbax/checkpoint/_src/path/step.py, standard_name_format.
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

// Plain numbers count alone, as for Orbax; a directory of any other name must hold a step. Names of
// one kind count: those that are numbers, else those of the only prefix.
std::vector<Found::Step> steps_below(const StorePath& root) {
  std::map<std::string, std::vector<Found::Step>> by_prefix;
  std::vector<Found::Step> plain;
  const auto add = [&](std::vector<Found::Step>& to, std::uint64_t number, const StorePath& at) {
    to.push_back({number, at.name(), (at / kStepFile).is_file()});
  };
  for (const std::string& name : root.list()) {
    const StorePath directory = root / name;
    if (const auto number = step_number(name)) {
      if (directory.is_directory()) add(plain, *number, directory);
    } else if (const auto other = step_name(name); other && holds_step(directory)) {
      add(by_prefix[other->prefix], other->number, directory);
    }
  }
  if (plain.empty()) {
    const auto numbers = by_prefix.find("");
    if (numbers != by_prefix.end()) {
      plain = numbers->second;
    } else if (by_prefix.size() == 1) {
      plain = by_prefix.begin()->second;
    }
  }
  std::ranges::sort(plain, {}, &Found::Step::number);
  return plain;
}

// Directories that hold steps, of whatever name; the first few.
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
              "no Orbax checkpoint: neither an item, a step nor a root directory");
  error.in_file(path.text());
  if (std::ranges::any_of(path.list(), is_unfinished)) {
    error.hint("there is an unfinished checkpoint, which is not read");
  } else if (const auto names = steps_of_any_name(path); !names.empty()) {
    error.hint("name one of the directories below it: " + join(names, ", "));
  }
  throw error;
}

// An item's metadata may lie beside it, or in the step directory around it.
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
    return false;  // of a model that somebody converts: its other entries may have any name
  }
  return any([&](const std::string& name) {
    if (is_unfinished(name) || name.starts_with(kProcessDirectory)) return true;
    const StorePath below = path / name;
    if (!below.is_directory()) return false;
    if (name == kItemDirectory || is_decimal(name)) return true;
    return is_open(below) && (is_tree(below) || (step_name(name) && holds_step(below)));
  });
}

// Adds the files of a directory, which has this name below `root`. Throws: bad_input (what is
// neither file nor directory), io.
void add_files(const StorePath& root, const std::string& name, std::vector<std::string>& out) {
  const StorePath path = root / name;
  if (path.is_file()) {
    out.push_back(name);
  } else if (path.is_directory()) {
    for (const std::string& below : path.list())
      add_files(root, fmt::format("{}/{}", name, below), out);
  } else {
    throw Error(ErrorCode::bad_input, "neither a file nor a directory, so that it is not copied")
        .in_file(path.text());
  }
}

}  // namespace

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
  out.plan_id = plan_id_of(path.at(out.directory));
  return out;
}

Beside find_beside(const StorePath& path, const Choice& choice) {
  const Location at = locate(path, choice);
  Beside out;
  if (!at.step || at.item == *at.step) return out;
  out.directory = *at.step;
  for (const std::string& name : at.step->list()) {
    if (*at.step / name == at.item || name == kStepFile || name == kCommitFile) continue;
    if (name == kItemDirectory) {
      throw Error(
          ErrorCode::unsupported,
          fmt::format("an item beside the tree has the name {}, which the tree gets", quote(name)))
          .in_file((*at.step / name).text())
          .hint(fmt::format("--items {} takes that tree alone", name));
    }
    add_files(*at.step, name, out.files);
  }
  if (!has(*at.step, kStepFile)) return out;
  const StorePath metadata = *at.step / kStepFile;
  out.attributes = parse_metadata(metadata.read(), metadata.text());
  const Json* handlers = out.attributes.find("item_handlers");
  if (handlers == nullptr || !handlers->is_object()) return out;
  const std::string& item = at.item.name();
  out.attributes["item_handlers"].object().erase(item.substr(item.rfind('/') + 1));
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
      throw Error(ErrorCode::usage, "items are chosen, but this is an item itself")
          .in_file(path.text());
    }
    out.item = path;
    out.step = step_of_item(path);
  } else {
    out.step = step_at(path, choice.step);
    // A tree that was saved straight into the step's directory has no item.
    const bool direct = choice.items.empty() && is_item(*out.step);
    out.item = direct ? *out.step : item_of_step(*out.step, choice);
  }
  check_item(out.item);
  return out;
}

}  // namespace hfshard::format::orbax
