#include "run/check/written_files.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/inner_path.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "bytes/local/source.h"
#include "catalog/manifest_head.h"
#include "run/engine/stop.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

// Calls `file(path)` for all files below a directory, with their path from there. Links are
// followed; one that leads nowhere is no file yet.
template <typename File>
void for_each_file(const std::string& directory, const std::string& below, const File& file) {
  for (const std::string& name : list_directory(join_path(directory, below))) {
    const std::string path = below.empty() ? name : join_path(below, name);
    const auto info = file_info(join_path(directory, path));
    if (!info) continue;
    if (info->kind == FileKind::directory) {
      for_each_file(directory, path, file);
    } else if (info->kind == FileKind::regular) {
      file(path);
    }
  }
}

// Returns the path from the step directory of a file of the item.
std::string in_step(const Plan& plan, const std::string& name) {
  const std::string& item = plan.files().item;
  return plan.options().in_place || item.empty() ? name : join_path(item, name);
}

// Returns the paths of data files, from the item's directory.
std::vector<std::string> data_paths(const Plan& plan) {
  std::vector<std::string> out;
  for (std::uint32_t file = 0; file < plan.data_files(); ++file)
    out.push_back(plan.file_path(file));
  if (!plan.model().objects.empty())  // carried_objects
    out.push_back(plan.files().data_file(plan.data_files(), plan.data_files() + 1));
  return out;
}

// Returns the paths of data files, of linked files, and of the record itself. Also the temporary
// name that a stopped run can leave.
std::set<std::string> left_out(const Plan& plan) {
  std::vector<std::string> names = data_paths(plan);
  if (plan.options().link) {
    const auto linked = static_cast<std::uint32_t>(plan.catalog().files.size());
    for (std::uint32_t file = 0; file < linked; ++file)
      names.push_back(plan.file_path(plan.data_files() + file));
  }
  std::set<std::string> out{kManifestName, temporary_name(kManifestName)};
  for (const std::string& name : names) out.insert(in_step(plan, name));
  return out;
}

FileRecord record_of(const std::string& directory, const std::string& path,
                     const RunOptions& options) {
  const FileSource file(join_path(directory, path));
  return {path, file.size_bytes(), sha256_of(file, options)};
}

std::vector<FileRecord> records_of(const std::string& directory,
                                   const std::set<std::string>& without,
                                   const RunOptions& options) {
  std::vector<FileRecord> out;
  for_each_file(directory, "", [&](const std::string& path) {
    if (without.contains(path)) return;
    out.push_back(record_of(directory, path, options));
  });
  std::ranges::sort(out, {}, &FileRecord::path);
  return out;
}

// Returns the fault of a file, or an empty string.
std::string fault_of(const FileRecord& recorded, const std::string& path,
                     const RunOptions& options) {
  const auto info = file_info(path);
  if (!info) return "the file is missing";
  if (info->kind != FileKind::regular) return "this isn't a file any more";
  const FileSource file(path);
  if (file.size_bytes() != recorded.size_bytes) {
    return fmt::format("the file has {} bytes, {} were written", file.size_bytes(),
                       recorded.size_bytes);
  }
  return sha256_of(file, options) == recorded.sha256 ? ""
                                                     : "the file differs from what was written";
}

// Adds a difference for a copy that has other bytes than `wanted` has, or is missing and `needed`.
void verify_copy(const SourceFile& wanted, const std::string& path, bool needed,
                 const RunOptions& options, VerifyResult& result) {
  const auto info = file_info(path);
  if (!info && needed) {
    result.differences.push_back(
        {"", "", "", fmt::format("the source has this file, and the output lacks it ({})", path),
         path});
  }
  if (!info || info->kind != FileKind::regular) return;
  const FileSource file(path);
  if (file.size_bytes() == wanted.size_bytes() &&
      sha256_of(file, options) == sha256_of(wanted, options))
    return;
  result.differences.push_back(
      {"", "", "", fmt::format("the file differs from the source's ({})", path), path});
}

// Compares the config.json of the output with what the source's gives. The texts can differ, if
// they say the same.
void verify_config(const Plan& plan, const std::string& directory, VerifyResult& result) {
  const std::string& changed = plan.model().config_text;
  const std::string& wanted = changed.empty() ? plan.catalog().config_text : changed;
  const std::string path = join_path(directory, "config.json");
  if (wanted.empty() || !exists(path)) return;
  const Json in_source = parse_json(wanted, "config.json");
  const Json written = parse_json(read_file(path), path);
  if (in_source == written) return;
  result.differences.push_back({"", "", "",
                                fmt::format("config.json isn't what the source's gives: {} ({})",
                                            quoted_list(differing_keys(in_source, written)), path),
                                path});
}

}  // namespace

std::string sha256_of(const SourceFile& file, const RunOptions& options) {
  Sha256 hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kPartBytes, file.size_bytes()));
  for (std::uint64_t at = 0; at < file.size_bytes(); at += buffer.size()) {
    check_stop(options);
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size_bytes() - at));
    file.read_at(at, part);
    hash.update(part);
  }
  return to_hex(std::span<const std::byte>(hash.finish()));
}

WrittenFiles written_files(const Plan& plan, const std::string& step, const std::string& side,
                           const std::string& root, const RunOptions& options) {
  WrittenFiles out{{}, records_of(step, left_out(plan), options), {}, {}};
  for (const std::string& name : data_paths(plan)) {
    const std::string path = in_step(plan, name);
    out.data.push_back({path, FileSource(join_path(step, path)).size_bytes(), {}});
  }
  if (!side.empty() && is_directory(side)) out.side = records_of(side, {}, options);
  for (const std::string& name : plan.catalog().beside.root_files)
    out.root.push_back(record_of(root, name, options));
  return out;
}

Json json_file(const FileRecord& file) {
  Json out;
  out["path"] = file.path;
  out["size_bytes"] = file.size_bytes;
  if (!file.sha256.empty()) out["sha256"] = file.sha256;
  return out;
}

std::vector<FileRecord> read_files(const Json& list) {
  std::vector<FileRecord> out;
  for (const Json& file : list.as_array()) {
    const Json* sha256 = file.find("sha256");
    out.push_back({file.at("path").as_string(), file.at("size_bytes").as_uint(),
                   sha256 ? sha256->as_string() : std::string()});
    if (is_inner_path(out.back().path)) continue;
    throw Error(ErrorCode::corrupt,
                fmt::format("a recorded file lies outside: {}", quote(out.back().path)));
  }
  return out;
}

void verify_files(const std::vector<FileRecord>& recorded, const std::string& directory,
                  const RunOptions& options, VerifyResult& result) {
  for (const FileRecord& file : recorded) {
    const std::string path = join_path(directory, file.path);
    const std::string fault = fault_of(file, path, options);
    ++result.files;
    if (fault.empty()) continue;
    result.differences.push_back({"", "", "", fmt::format("{} ({})", fault, path), path});
  }
}

void verify_data_sizes(const std::vector<FileRecord>& recorded, const std::string& step,
                       VerifyResult& result) {
  for (const FileRecord& file : recorded) {
    const std::string path = join_path(step, file.path);
    const auto info = file_info(path);
    if (!info || info->stamp.size_bytes == file.size_bytes) continue;
    const bool is_told = std::ranges::any_of(
        result.differences, [&](const Difference& item) { return item.file == path; });
    if (info->stamp.size_bytes < file.size_bytes && is_told) continue;
    const std::string fault = fmt::format("the file has {} bytes, {} were written ({})",
                                          info->stamp.size_bytes, file.size_bytes, path);
    result.differences.push_back({"", "", "", fault, path});
  }
}

void check_still_there(const Plan& plan, const WrittenFiles& files, const std::string& step,
                       const std::string& side, const std::string& root) {
  const auto check = [](const std::string& path, std::optional<std::uint64_t> size_bytes) {
    const auto info = file_info(path);
    const bool is_there = info && info->kind == FileKind::regular;
    if (is_there && (!size_bytes || info->stamp.size_bytes == *size_bytes)) return;
    throw Error(
        ErrorCode::conflict,
        is_there ? fmt::format("the output was complete, but a file now has {} bytes instead of {}",
                               info->stamp.size_bytes, *size_bytes)
                 : "the output was complete, but a file is missing")
        .in_file(path)
        .hint(
            "pass --overwrite without --resume to write it again; hfshard verify OUT lists all "
            "lost files");
  };
  for (const FileRecord& file : files.step) check(join_path(step, file.path), file.size_bytes);
  for (const FileRecord& file : files.side) check(join_path(side, file.path), std::nullopt);
  for (const FileRecord& file : files.root) check(join_path(root, file.path), file.size_bytes);
  for (const FileRecord& file : files.data) check(join_path(step, file.path), file.size_bytes);
  if (!files.data.empty()) return;
  for (const std::string& name : data_paths(plan))  // before 0.2.0
    check(join_path(step, in_step(plan, name)), std::nullopt);
}

void verify_source_files(const Plan& plan, const std::string& step, const std::string& side,
                         const RunOptions& options, VerifyResult& result) {
  if (plan.options().in_place) return;  // they are the source's files
  const Catalog& source = plan.catalog();
  const auto compare = [&](const StorePath& from, const std::vector<std::string>& names,
                           const std::string& directory, bool needed) {
    for (const std::string& name : names)
      verify_copy(*(from / name).open(), join_path(directory, name), needed, options, result);
  };
  compare(source.beside.directory, source.beside.files, step, false);
  compare(source.beside.root, source.beside.root_files, parent_path(step), false);
  std::vector<std::string> carried = source.side_files;
  const bool other = plan.options().tree.config_text.has_value();  // files of another directory
  if (std::erase(carried, "config.json") > 0 || other) verify_config(plan, side, result);
  if (other) return;
  compare(source.directory, carried, side, is_directory(side));
}

}  // namespace hfshard
