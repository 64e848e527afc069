#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
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

bool is_unfinished(std::string_view name) { return name.find(kUnfinished) != std::string::npos; }

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

void check_item(const StorePath& item) {
  refuse_unfinished(item);
  if (has(item, kManifestFile)) return;
  const std::vector<std::string> names = item.list();
  if (std::ranges::any_of(
          names, [](const std::string& name) { return name.starts_with(kProcessDirectory); })) {
    throw Error(ErrorCode::corrupt,
                "an unfinished checkpoint: its processes wrote their parts, but nobody merged them")
        .in_file(item.text());
  }
  if (has(item, kTreeFile)) {
    throw Error(ErrorCode::unsupported,
                "a checkpoint without manifest.ocdbt (plain array directories) is not supported")
        .in_file(item.text());
  }
  throw Error(ErrorCode::not_found, "no manifest.ocdbt: not an Orbax checkpoint")
      .in_file(item.text());
}

StorePath item_of_step(const StorePath& step) {
  refuse_unfinished(step);
  // Names that MaxText and Orbax's newer interface give to the tree.
  for (const std::string_view name :
       {kItemDirectory, std::string_view("state"), std::string_view("default")}) {
    if ((step / name).is_directory()) return step / name;
  }
  throw Error(ErrorCode::not_found, "a step directory without items").in_file(step.text());
}

bool is_item(const StorePath& path) { return has(path, kManifestFile) || has(path, kTreeFile); }

bool is_step(const StorePath& path) {
  return has(path, kStepFile) || (path / kItemDirectory).is_directory();
}

// By number.
std::vector<Found::Step> steps_below(const StorePath& root) {
  std::vector<Found::Step> out;
  for (const std::string& name : root.list()) {
    const auto number = step_number(name);
    const StorePath directory = root / name;
    if (number && directory.is_directory())
      out.push_back({*number, directory.name(), (directory / kStepFile).is_file()});
  }
  std::ranges::sort(out, {}, &Found::Step::number);
  return out;
}

StorePath highest_step(const StorePath& root) {
  const std::vector<Found::Step> steps = steps_below(root);
  if (!steps.empty()) return root.at(steps.back().directory);
  Error error(ErrorCode::not_found,
              "no Orbax checkpoint: neither an item, a step nor a root directory");
  error.in_file(root.text());
  if (std::ranges::any_of(root.list(), is_unfinished))
    error.hint("there is an unfinished checkpoint, which is not read");
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
    return (name == kItemDirectory || is_decimal(name)) && (path / name).is_directory();
  });
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

Location locate(const StorePath& path) {
  if (!path.is_directory()) {
    throw Error(path.exists() ? ErrorCode::bad_input : ErrorCode::not_found,
                path.exists() ? "a checkpoint is a directory" : "no such directory")
        .in_file(path.text());
  }
  Location out;
  if (is_item(path)) {
    out.item = path;
    out.step = step_of_item(path);
  } else {
    out.step = is_step(path) ? path : highest_step(path);
    out.item = item_of_step(*out.step);
  }
  check_item(out.item);
  return out;
}

}  // namespace hfshard::format::orbax
