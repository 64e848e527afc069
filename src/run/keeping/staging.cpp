#include "run/keeping/staging.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/output.h"
#include "plan/options_json.h"
#include "run/keeping/recover.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

namespace fs = std::filesystem;

bool is_decimal(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// Absolute, links resolved as far as the path exists.
fs::path canonical(const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); }

bool inside(const fs::path& inner, const fs::path& outer) {
  const auto mismatch = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return mismatch.first == outer.end();
}

Json stamps(const Plan& plan) {
  Json out{Json::Array{}};
  for (const CatalogFile& file : plan.catalog().files) {
    Json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.size_bytes;
    entry["mtime_ns"] = file.mtime_ns;
    entry["inode"] = file.inode;
    out.array().push_back(std::move(entry));
  }
  return out;
}

Json plan_record(const Plan& plan) {
  Json record;
  record["plan_id"] = plan.id();
  record["identity"] = plan.identity();
  record["source"] = canonical(plan.catalog().location).string();
  record["sources"] = stamps(plan);
  return record;
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

void check_same_plan(const Plan& plan, const OutPaths& paths, const std::string& record_path) {
  const Json found = parse_json(read_file(record_path), record_path);
  const Json wanted = plan_record(plan);
  if (found.at("plan_id") != wanted.at("plan_id")) {
    std::vector<std::string> differences;
    list_differences(found.at("identity"), wanted.at("identity"), "", differences);
    throw Error(ErrorCode::conflict,
                fmt::format("a run with another plan was started for this output ({})",
                            join(differences, "; ")))
        .in_file(paths.staging)
        .hint(fmt::format("finish it with its own options, or remove it: hfshard clean {}",
                          paths.out));
  }
  if (found.at("sources") == wanted.at("sources")) return;
  for (std::size_t i = 0; i < plan.catalog().files.size(); ++i) {
    if (found.at("sources").as_array()[i] == wanted.at("sources").as_array()[i]) continue;
    throw Error(ErrorCode::conflict,
                "the source changed since this run was started (size, time or inode)")
        .in_file(plan.catalog().files[i].path)
        .hint(fmt::format("start over: hfshard clean {}", paths.out));
  }
}

}  // namespace

OutPaths out_paths(const std::string& out, std::uint64_t step) {
  OutPaths paths;
  paths.out = out;
  while (paths.out.size() > 1 && paths.out.back() == '/') paths.out.pop_back();
  const std::string name = fs::path(paths.out).filename().string();
  if (name.empty() || name == "." || name == "..") {
    throw Error(ErrorCode::usage,
                fmt::format("the output needs a name of its own, not {}", quote(out)));
  }
  paths.parent = parent_path(paths.out);
  paths.staging = join_path(paths.parent, "." + name + ".hfshard");
  paths.tree = join_path(paths.staging, "out");
  paths.step = join_path(paths.tree, std::to_string(step));
  return paths;
}

std::string published_step(const Plan& plan, const OutPaths& paths) {
  return plan.options().in_place ? paths.out
                                 : join_path(paths.out, std::to_string(plan.options().step));
}

OutState out_state(const std::string& out, std::uint64_t step) {
  if (!exists(out)) return OutState::absent;
  if (!is_directory(out)) return OutState::foreign;
  const std::vector<std::string> names = list_directory(out);
  if (names.empty()) return OutState::absent;
  if (std::ranges::find(names, std::to_string(step)) != names.end()) return OutState::step;
  const bool root = std::ranges::any_of(names, [&](const std::string& name) {
    return is_decimal(name) && exists(join_path(join_path(out, name), "_CHECKPOINT_METADATA"));
  });
  return root ? OutState::root : OutState::foreign;
}

bool is_checkpoint_step(const std::string& directory) {
  if (is_symlink(directory)) return false;
  const auto metadata = file_info(join_path(directory, "_CHECKPOINT_METADATA"));
  return metadata && metadata->kind == FileKind::regular;
}

std::string published_plan_id(const std::string& step_directory) {
  const std::string path = join_path(step_directory, "_CHECKPOINT_METADATA");
  if (!exists(path)) return {};
  const Json metadata = parse_json(read_file(path), path);
  const Json* custom = metadata.find("custom_metadata");
  const Json* ours = custom ? custom->find("hfshard") : nullptr;
  const Json* id = ours ? ours->find("plan_id") : nullptr;
  return id && id->is_string() ? id->as_string() : std::string();
}

namespace {

std::uint64_t device_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_dev : 0;
}

// What is staged gets its name by renaming, which no file system does to another one.
void refuse_mount_point(const OutPaths& paths, const std::string& hint) {
  const std::uint64_t own = device_of(paths.out);
  const std::uint64_t above = device_of(canonical(paths.parent).string());
  if (own == 0 || above == 0 || own == above) return;
  throw Error(ErrorCode::conflict,
              "the output is a mount point, which cannot be published by renaming")
      .in_file(paths.out)
      .hint(hint);
}

// An index may be put into the source's directory if none is there.
void check_in_place(const RunOptions& options, const OutPaths& paths) {
  refuse_mount_point(paths, "name a directory inside it, or link to another output");
  const std::string manifest = join_path(paths.out, "manifest.ocdbt");
  if (!exists(manifest) || options.overwrite) return;
  throw Error(ErrorCode::conflict, "the directory has an index already")
      .in_file(manifest)
      .hint("pass --overwrite to replace it");
}

// Staging is emptied in the end, and no file of the source may go with it.
void refuse_source_in_staging(const Plan& plan, const OutPaths& paths) {
  const fs::path staging = canonical(paths.staging);
  std::vector<std::string> files = {plan.catalog().location};
  for (const CatalogFile& file : plan.catalog().files) files.push_back(file.path);
  for (const std::string& file : files) {
    if (!inside(canonical(file), staging)) continue;
    throw Error(ErrorCode::conflict, "the input lies inside the output's staging directory")
        .in_file(file)
        .hint(fmt::format("choose another output: its name must not lead to {}", paths.staging));
  }
}

void check_step(const Plan& plan, const RunOptions& options, const OutPaths& paths) {
  const std::string step = published_step(plan, paths);
  if (options.resume && published_plan_id(step) == plan.id()) return;
  if (!is_checkpoint_step(step)) {
    throw Error(ErrorCode::conflict, "what has the name of the step is not a checkpoint")
        .in_file(step)
        .hint("choose another output or --step; hfshard never deletes what it did not write");
  }
  if (options.overwrite) return;
  throw Error(ErrorCode::conflict,
              fmt::format("the output already has step {}", plan.options().step))
      .in_file(paths.out)
      .hint("choose another output or --step, or pass --overwrite");
}

}  // namespace

void check_output(const Plan& plan, const RunOptions& options) {
  const OutPaths paths = out_paths(options.out, plan.options().step);
  refuse_source_in_staging(plan, paths);
  if (plan.options().in_place) return check_in_place(options, paths);
  const fs::path out = canonical(paths.out);
  const fs::path input = canonical(plan.catalog().location);
  const bool directory = is_directory(plan.catalog().location);
  if (directory ? inside(out, input) || inside(input, out) : inside(input, out)) {
    throw Error(ErrorCode::conflict, "the output and the input lie inside each other")
        .in_file(paths.out)
        .hint("choose an output outside of " + plan.catalog().location);
  }
  if (is_symlink(paths.out)) {
    throw Error(ErrorCode::conflict,
                "the output is a symbolic link, which cannot be published by renaming")
        .in_file(paths.out)
        .hint(fmt::format("name what it leads to: {}", out.string()));
  }
  const auto here = file_info(paths.out);
  if (here && here->kind == FileKind::directory)
    refuse_mount_point(paths, "name a new directory inside it");
  switch (out_state(paths.out, plan.options().step)) {
    case OutState::absent:
    case OutState::root:
      return;
    case OutState::step:
      return check_step(plan, options, paths);
    case OutState::foreign:
      throw Error(ErrorCode::conflict, "the output exists and is not a checkpoint")
          .in_file(paths.out)
          .hint("choose a path that does not exist; hfshard never deletes what it did not write");
  }
}

bool has_staged_plan(const std::string& out) {
  return exists(join_path(out_paths(out, 0).staging, kPlanRecordName));
}

StagedPlan read_staged_plan(const std::string& out) {
  const std::string path = join_path(out_paths(out, 0).staging, kPlanRecordName);
  if (!exists(path)) {
    throw Error(ErrorCode::not_found,
                "no run was started for this output, there is no staging directory")
        .in_file(out)
        .hint("run convert first; a finished output has no staging directory");
  }
  const Json record = parse_json(read_file(path), path);
  return {record.at("source").as_string(), options_from_json(record.at("identity").at("options"))};
}

Staging::Staging(const OutPaths& paths, bool shared)
    : paths_(paths),
      shared_(shared),
      directory_(OwnedDirectory::claim(
          paths.staging, shared ? OwnedDirectory::Mode::shared : OwnedDirectory::Mode::exclusive)),
      use_(shared ? staging_use(paths) : recover(paths)) {
  if (shared && published()) {
    throw Error(ErrorCode::conflict, "a run of this output was interrupted after it had published")
        .in_file(paths.staging)
        .hint(fmt::format("remove what it left: hfshard clean {}", paths.out));
  }
}

void Staging::begin(const Plan& plan) {
  // Without journals nothing there is known to be good; without this a tree could keep old files.
  if (published() || (!shared_ && !has_journals(paths_))) empty_staging(directory_, paths_);
  use_ = StagingUse::go_on;
  const std::string record_path = join_path(paths_.staging, kPlanRecordName);
  if (exists(record_path) || !create_file_durably(record_path, dump_json_pretty(plan_record(plan))))
    check_same_plan(plan, paths_, record_path);  // of the last run, or of a worker that was first
  make_directories(paths_.step);
  fsync_directory(paths_.parent);
}

void Staging::check(const Plan& plan) const {
  const std::string record_path = join_path(paths_.staging, kPlanRecordName);
  if (exists(record_path)) check_same_plan(plan, paths_, record_path);
}

void Staging::remove() const { remove_staging(directory_, paths_); }

bool clean_staging(const OutPaths& paths) {
  const auto directory = OwnedDirectory::find(paths.staging, OwnedDirectory::Mode::exclusive);
  if (directory) remove_staging(*directory, paths);
  return directory.has_value();
}

}  // namespace hfshard
