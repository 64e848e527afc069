#include "run/commit/staging.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "bytes/local/syscalls.h"
#include "plan/options_json.h"
#include "run/commit/recover.h"
#include "run/commit/root.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

namespace fs = std::filesystem;

// Absolute, links resolved as far as the path exists.
fs::path canonical(const std::string& path) {
  std::error_code error;
  fs::path out = fs::absolute(path, error);
  if (!error) out = fs::weakly_canonical(out, error);
  if (error) throw sys::failure("follow", path, error.value());
  return out;
}

bool inside(const fs::path& inner, const fs::path& outer) {
  const auto mismatch = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return mismatch.first == outer.end();
}

constexpr const char* kInodes = "inodes";

Json stamps(const Plan& plan) {
  Json out{Json::Array{}};
  for (const CatalogFile& file : plan.catalog().files) {
    Json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.size_bytes;
    entry["version"] = file.version;
    entry[kInodes] = Json::Array{};
    for (const InodeState& is : file.inodes) {
      entry[kInodes].array().emplace_back(Json::Array{
          Json(is.ctime_ns), Json(is.links), Json(is.mode), Json(is.owner), Json(is.group)});
    }
    out.array().push_back(std::move(entry));
  }
  return out;
}

// Returns the directory or file that the user named, or nothing for a remote source.
std::optional<fs::path> local_source(const Catalog& catalog) {
  if (!catalog.directory.local_path()) return std::nullopt;
  return canonical(catalog.location);
}

Json plan_record(const Plan& plan) {
  const auto local = local_source(plan.catalog());
  Json record;
  record["plan_id"] = plan.id();
  record["identity"] = plan.identity();
  record["source"] = local ? local->string() : plan.catalog().location;
  record["sources"] = stamps(plan);
  const TreeOptions& tree = plan.options().tree;
  if (tree.config_text) record["config"] = canonical(tree.config_name).string();
  return record;
}

// JSON has only UTF-8. Throws: unsupported, if finalize couldn't find the source by the record.
void check_recordable(const Json& record) {
  for (const char* key : {"source", "config"}) {
    const Json* path = record.find(key);
    if (path == nullptr || is_utf8(path->as_string())) continue;
    throw Error(ErrorCode::unsupported,
                "the path isn't UTF-8, so finalize couldn't find the file that workers read")
        .in_file(path->as_string())
        .hint("pass a link to it whose name is UTF-8");
  }
}

// Paths of the members in which two JSON values differ, at most `most`.
void list_differences(const Json& a, const Json& b, const std::string& at,
                      std::vector<std::string>& out) {
  if (a == b || out.size() >= 4) return;
  if (!a.is_object() || !b.is_object()) {
    out.push_back(fmt::format("{}: {} there, {} here", at.empty() ? "plan" : at,
                              dump_json(a).substr(0, 60), dump_json(b).substr(0, 60)));
    return;
  }
  Json::Object both = a.as_object();
  both.insert(b.as_object().begin(), b.as_object().end());
  for (const auto& [key, unused] : both) {
    const std::string below = at.empty() ? key : fmt::format("{}.{}", at, key);
    const Json* left = a.find(key);
    const Json* right = b.find(key);
    list_differences(left ? *left : Json(), right ? *right : Json(), below, out);
  }
}

// `error`: its facts, such as line and column, stay.
Error bad_record(const OutPaths& paths, const Error& error) {
  return error
      .reworded(ErrorCode::corrupt,
                "the record of the interrupted run is damaged: " + error.sentence())
      .in_file(join_path(paths.staging, kPlanRecordName))
      .hint(fmt::format("to start over, run: hfshard clean {}", shell_word(paths.out)));
}

// Calls `read` with the record of a staging directory. One that lacks a member, or is no JSON, says
// nothing.
template <typename Read>
auto with_record(const OutPaths& paths, const Read& read) {
  const std::string path = join_path(paths.staging, kPlanRecordName);
  try {
    return read(parse_json(read_file(path), path));
  } catch (const Error& error) {  // what it lacks is said without the file
    if (error.code() == ErrorCode::bad_input) throw bad_record(paths, error);
    throw;
  }
}

// Reads the entry of a source file; records of before 0.2.0 know no inodes.
FileIdentity recorded_identity(const Json& entry) {
  FileIdentity out{entry.at("bytes").as_uint(), entry.at("version").as_string()};
  const Json* inodes = entry.find(kInodes);
  if (inodes == nullptr) return out;
  for (const Json& inode : inodes->as_array()) {
    const Json::Array& is = inode.as_array();
    if (is.size() != 5) throw Error(ErrorCode::bad_input, "an inode has five numbers");
    out.inodes.push_back(
        {is[0].as_int(), is[1].as_uint(), is[2].as_uint(), is[3].as_uint(), is[4].as_uint()});
  }
  return out;
}

void check_same_record(const Plan& plan, const OutPaths& paths, const Json& found) {
  const Json wanted = plan_record(plan);
  if (found.at("plan_id") != wanted.at("plan_id")) {
    std::vector<std::string> differences;
    list_differences(found.at("identity"), wanted.at("identity"), "", differences);
    throw Error(ErrorCode::conflict,
                fmt::format("a run with another plan was started for this output ({})",
                            join(differences, "; ")))
        .in_file(paths.staging)
        .hint(fmt::format("finish it with its own options, or remove it with hfshard clean {}",
                          shell_word(paths.out)));
  }
  const Json::Array& files = found.at("sources").as_array();
  if (files.size() != plan.catalog().files.size()) {  // their names are in the plan id
    throw bad_record(
        paths, Error(ErrorCode::corrupt, fmt::format("it has {} source files, and the plan has {}",
                                                     files.size(), plan.catalog().files.size())));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const CatalogFile& file = plan.catalog().files[i];
    if (files[i].at("name").as_string() == file.name &&
        recorded_identity(files[i]) == file.identity()) {
      continue;
    }
    throw Error(ErrorCode::conflict,
                file.path.is_far()
                    ? "the source has another commit than when this run was started"
                    : "the source changed since this run was started (size, time or inode)")
        .in_file(file.path.text())
        .hint(fmt::format("to start over, run: hfshard clean {}", shell_word(paths.out)));
  }
}

void check_same_plan(const Plan& plan, const OutPaths& paths) {
  with_record(paths, [&](const Json& record) { check_same_record(plan, paths, record); });
}

// Refuses URLs of object stores, which would become directories of that name.
void refuse_url(const std::string& out) {
  const std::string_view scheme = url_scheme(out);
  if (scheme.empty()) return;
  std::string copy = "then copy it there";
  if (scheme == "gs") copy = "then run: gcloud storage cp -r DIRECTORY " + out;
  if (scheme == "s3") copy = "then run: aws s3 cp --recursive DIRECTORY " + out;
  throw Error(ErrorCode::unsupported, "an output must be a local directory, not a URL")
      .in_file(out)
      .hint("write to a local directory, " + copy);
}

// In quotes it would become a directory of that name, below which nobody looks.
void refuse_tilde(const std::string& out) {
  const std::string hint = tilde_hint(out);
  if (hint.empty()) return;
  throw Error(ErrorCode::usage, "~ isn't your home directory here").in_file(out).hint(hint);
}

}  // namespace

OutPaths out_paths(const std::string& out, const std::string& step) {
  refuse_url(out);
  refuse_tilde(out);
  OutPaths paths;
  paths.out = out;
  while (paths.out.size() > 1 && paths.out.back() == '/') paths.out.pop_back();
  const std::string name = fs::path(paths.out).filename().string();
  if (name.empty() || name == "." || name == "..") {
    throw Error(ErrorCode::usage, fmt::format("the output needs its own name, not {}", quote(out)))
        .hint("pass a directory to create, such as out");
  }
  paths.parent = parent_path(paths.out);
  paths.staging = join_path(paths.parent, "." + name + std::string(kStagingSuffix));
  paths.tree = join_path(paths.staging, "out");
  paths.step = step.empty() ? paths.tree : join_path(paths.tree, step);
  return paths;
}

OutPaths out_paths(const Plan& plan, const std::string& out) {
  return out_paths(out, plan.files().step_directory(plan.step()));
}

std::string published_step(const Plan& plan, const OutPaths& paths) {
  const std::string step = plan.files().step_directory(plan.step());
  return plan.options().in_place || step.empty() ? paths.out : join_path(paths.out, step);
}

OutState out_state(const Plan& plan, const Format& target, const std::string& out) {
  if (!exists(out)) return OutState::absent;
  if (!is_directory(out)) return OutState::foreign;
  const std::vector<std::string> names = list_directory(out);
  if (names.empty()) return OutState::absent;
  const std::string step = plan.files().step_directory(plan.step());
  if (std::ranges::find(names, step) != names.end()) return OutState::step;
  const auto found = target.recognise(out);
  if (!plan.files().has_steps) return found ? OutState::step : OutState::foreign;
  const bool root = found && std::ranges::any_of(found->steps, &Found::Step::published);
  return root ? OutState::root : OutState::foreign;
}

std::string published_plan_id(const Format& target, const std::string& step_directory) {
  const auto found = target.recognise(step_directory);
  return found && found->directory == step_directory ? found->plan_id : std::string();
}

namespace {

std::uint64_t device_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_dev : 0;
}

// Publishing renames the staged tree, and a rename can't cross file systems.
void refuse_mount_point(const OutPaths& paths, const std::string& hint) {
  const std::uint64_t own = device_of(paths.out);
  const std::uint64_t above = device_of(canonical(paths.parent).string());
  if (own == 0 || above == 0 || own == above) return;
  throw Error(ErrorCode::conflict, "the output is a mount point, and hfshard publishes by renaming")
      .in_file(paths.out)
      .hint(hint);
}

// Returns the target of a link at OUT. It need not exist.
std::string led_to(const OutPaths& paths) {
  return canonical((paths.parent / fs::read_symlink(paths.out)).string()).string();
}

// An index may be put into the source's directory if none is there.
void check_in_place(const Plan& plan, const RunOptions& options, const OutPaths& paths) {
  refuse_mount_point(paths, "pass a directory inside it, or another output");
  const std::string index = join_path(paths.out, plan.files().commit_file);
  if (!exists(index) || options.overwrite) return;
  throw Error(ErrorCode::conflict, "the directory already has an index")
      .in_file(index)
      .hint("pass --overwrite to replace it");
}

// Staging is emptied in the end, and no file of the source may go with it.
void refuse_source_in_staging(const Plan& plan, const OutPaths& paths) {
  const fs::path staging = canonical(paths.staging);
  std::vector<std::string> files;
  if (const auto local = local_source(plan.catalog())) files.push_back(plan.catalog().location);
  for (const CatalogFile& file : plan.catalog().files) {
    if (auto path = file.path.local_path()) files.push_back(std::move(*path));
  }
  for (const std::string& file : files) {
    if (!inside(canonical(file), staging)) continue;
    throw Error(ErrorCode::conflict, "the input is inside the output's staging directory")
        .in_file(file)
        .hint(fmt::format("pass another output; its staging directory would be {}", paths.staging));
  }
}

// Returns whether `step` is a step of OUT, written by any program. A link to a step isn't.
bool is_checkpoint_step(const Format& target, const std::string& out, const std::string& step) {
  const auto found = target.recognise(out);
  return !is_symlink(step) && found &&
         std::ranges::any_of(found->steps, [&](const Found::Step& each) {
           return each.published && each.directory == step;
         });
}

// Returns whether a run with any number of data files makes this name in a directory without steps.
bool is_output_name(const Plan& plan, const Format& target, const std::string& name) {
  const std::vector<std::string>& carried = plan.catalog().side_files;
  return name == kManifestName || name == kOriginName || target.writes_name(name) ||
         std::ranges::find(carried, name) != carried.end();
}

// Replacing a directory removes all of it, so all of it must be what a run makes.
void check_replaced(const Plan& plan, const Format& target, const RunOptions& options,
                    const OutPaths& paths) {
  const std::string published = published_plan_id(target, paths.out);
  if (options.resume && published == plan.id()) return;
  if (published.empty()) {
    throw Error(ErrorCode::conflict, "the output exists, and hfshard didn't write it")
        .in_file(paths.out)
        .hint("pass a path that doesn't exist; hfshard deletes only what it wrote");
  }
  if (!options.overwrite) {
    throw Error(ErrorCode::conflict, "the output already has a checkpoint")
        .in_file(paths.out)
        .hint("pass another output, or --overwrite");
  }
  for (const std::string& name : list_directory(paths.out)) {
    if (is_output_name(plan, target, name)) continue;
    throw Error(ErrorCode::conflict, "the output has a file that hfshard didn't write")
        .in_file(join_path(paths.out, name))
        .hint("move it away; hfshard deletes only what it wrote");
  }
}

// Replacing a step removes all of it, also items that the new one lacks.
void check_items_replaced(const Plan& plan, const Format& target, const std::string& step) {
  std::vector<std::string> names;
  try {
    names = target.other_items(StorePath(step), {});
  } catch (const Error& error) {  // a damaged step can be replaced
    if (error.code() == ErrorCode::io) throw;
  }
  const Beside& copied = plan.catalog().beside;
  for (const std::string& name : names) {
    const auto is_below = [&](const std::string& path) {
      return path == name || path.starts_with(name + "/");
    };
    if (std::ranges::any_of(copied.files, is_below) || std::ranges::any_of(copied.empty, is_below))
      continue;
    throw Error(ErrorCode::conflict, "the step has something that the new one doesn't replace")
        .in_file(join_path(step, name))
        .hint("move it away, or pass another output or --output-step");
  }
}

void check_step(const Plan& plan, const Format& target, const RunOptions& options,
                const OutPaths& paths) {
  if (!plan.files().has_steps) return check_replaced(plan, target, options, paths);
  const std::string step = published_step(plan, paths);
  if (options.resume && published_plan_id(target, step) == plan.id()) return;
  if (!is_checkpoint_step(target, paths.out, step)) {
    throw Error(ErrorCode::conflict,
                "the step's name is taken by something that isn't a checkpoint")
        .in_file(step)
        .hint("pass another output or --output-step; hfshard deletes only what it wrote");
  }
  if (options.overwrite) return check_items_replaced(plan, target, step);
  throw Error(ErrorCode::conflict, fmt::format("the output already has step {}", plan.step()))
      .in_file(paths.out)
      .hint("pass another output, --output-step N, or --overwrite");
}

// Returns the hint for an output that is a step of a checkpoint, or an item of one.
std::string hint_inside_checkpoint(const Format& target, const std::string& out) {
  const std::string above = parent_path(out);
  const bool is_item = target.is_tree(out) && target.has_items(above);
  return fmt::format("it is {} step; pass {}, and the step with --output-step",
                     is_item ? "an item of a" : "a",
                     shell_word(is_item ? parent_path(above) : above));
}

}  // namespace

void check_output(const Plan& plan, const Format& target, const RunOptions& options) {
  const OutPaths paths = out_paths(plan, options.out);
  refuse_source_in_staging(plan, paths);
  if (plan.options().in_place) return check_in_place(plan, options, paths);
  const fs::path out = canonical(paths.out);
  const std::string& given =
      plan.catalog().root.empty() ? plan.catalog().location : plan.catalog().root;
  std::optional<fs::path> input;
  if (local_source(plan.catalog())) input = canonical(given);
  if (input && (*input == out || (is_directory(given) && inside(out, *input)))) {
    throw Error(ErrorCode::conflict,
                *input == out ? "the output is the input" : "the output is inside the input")
        .in_file(paths.out)
        .hint("pass an output outside of " + given);
  }
  if (input && inside(*input, out)) {
    throw Error(ErrorCode::conflict, "the input is inside the output")
        .in_file(paths.out)
        .hint("pass an output that doesn't contain " + given);
  }
  if (is_symlink(paths.out)) {
    throw Error(ErrorCode::conflict,
                "the output is a symbolic link, and hfshard publishes by renaming")
        .in_file(paths.out)
        .hint(fmt::format("pass its target: {}", led_to(paths)));
  }
  const auto here = file_info(paths.out);
  if (here && here->kind == FileKind::directory)
    refuse_mount_point(paths, "pass a new directory inside it");
  switch (out_state(plan, target, paths.out)) {
    case OutState::absent:
      return;
    case OutState::root:
      return check_root(plan, target, options, paths);
    case OutState::step:
      check_root(plan, target, options, paths);
      return check_step(plan, target, options, paths);
    case OutState::foreign:
      throw Error(ErrorCode::conflict,
                  fmt::format("the output exists and is no {} checkpoint", target.name()))
          .in_file(paths.out)
          .hint(plan.files().has_steps && target.recognise(paths.out)
                    ? hint_inside_checkpoint(target, paths.out)
                    : "pass a path that doesn't exist; hfshard deletes only what it wrote");
  }
}

bool has_staged_plan(const std::string& out) {
  return exists(join_path(out_paths(out).staging, kPlanRecordName));
}

StagedPlan read_staged_plan(const std::string& out) {
  const OutPaths paths = out_paths(out);
  if (!exists(join_path(paths.staging, kPlanRecordName))) {
    throw Error(ErrorCode::not_found,
                "no run was started for this output; it has no staging directory")
        .in_file(out)
        .hint("run hfshard convert first; a finished output has no staging directory");
  }
  return with_record(paths, [](const Json& record) {
    StagedPlan staged{record.at("source").as_string(),
                      options_from_json(record.at("identity").at("options"))};
    if (const Json* config = record.find("config"))
      staged.options.tree.config_name = config->as_string();
    return staged;
  });
}

Staging::Staging(const OutPaths& paths, bool shared)
    : paths_(paths),
      shared_(shared),
      directory_(OwnedDirectory::claim(
          paths.staging, shared ? OwnedDirectory::Mode::shared : OwnedDirectory::Mode::exclusive)),
      use_(shared ? staging_use(paths) : recover(paths)) {
  if (shared && published()) {
    throw Error(ErrorCode::conflict, "a run of this output was interrupted after it published")
        .in_file(paths.staging)
        .hint(
            fmt::format("remove the rest of the run with hfshard clean {}", shell_word(paths.out)));
  }
}

void Staging::begin(const Plan& plan) {
  // Without journals nothing there is known to be good; without this a tree could keep old files.
  if (published() || (!shared_ && !has_journals(paths_))) empty_staging(directory_, paths_);
  use_ = StagingUse::go_on;
  const std::string record_path = join_path(paths_.staging, kPlanRecordName);
  const Json record = plan_record(plan);
  if (shared_) check_recordable(record);
  if (exists(record_path) || !create_file_durably(record_path, dump_json_pretty(record)))
    check_same_plan(plan, paths_);  // of the last run, or of a worker that was first
  make_directories(paths_.step);
  fsync_directory(paths_.parent);
}

void Staging::check(const Plan& plan) const {
  if (exists(join_path(paths_.staging, kPlanRecordName))) check_same_plan(plan, paths_);
}

void Staging::remove() const { remove_staging(directory_, paths_); }

bool clean_staging(const OutPaths& paths) {
  const auto directory = OwnedDirectory::find(paths.staging, OwnedDirectory::Mode::exclusive);
  if (directory) remove_staging(*directory, paths);
  return directory.has_value();
}

}  // namespace hfshard
