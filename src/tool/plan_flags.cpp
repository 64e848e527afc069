#include "tool/plan_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/zstd.h"
#include "tool/environment.h"
#include "tool/hub_flags.h"
#include "tool/values.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

std::uint64_t bytes_of(const std::string& text, std::string_view flag) {
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes == 0) {
    throw Error(ErrorCode::usage, fmt::format("{} {} is not a size", flag, quote(text)))
        .hint("pass a size such as 64MiB or 2GiB, or a number of bytes");
  }
  return *bytes;
}

void parse_worker(const std::string& text, RunOptions& options) {
  const std::size_t slash = text.find('/');
  const char* end = text.data() + text.size();
  const char* middle = text.data() + (slash == std::string::npos ? text.size() : slash);
  const auto first = std::from_chars(text.data(), middle, options.worker);
  const auto second = std::from_chars(middle == end ? end : middle + 1, end, options.workers);
  if (first.ec != std::errc() || first.ptr != middle || second.ec != std::errc() ||
      second.ptr != end || options.worker >= options.workers) {
    throw Error(ErrorCode::usage,
                fmt::format("--worker {} is not I/N with 0 <= I < N", quote(text)))
        .hint("four workers run with 0/4, 1/4, 2/4 and 3/4; then run hfshard finalize OUT");
  }
}

// Returns the level; 0 for "none".
int zstd_level(const std::string& text) {
  if (text == "none") return 0;
  if (text == "zstd") return 1;
  constexpr std::string_view kBefore = "zstd:";
  int level = 0;
  const char* end = text.data() + text.size();
  if (text.starts_with(kBefore)) {
    const auto parsed = std::from_chars(text.data() + kBefore.size(), end, level);
    if (parsed.ec == std::errc() && parsed.ptr == end && level >= 1 && level <= kMaxZstdLevel)
      return level;
  }
  throw Error(ErrorCode::usage, fmt::format("hfshard doesn't know --compress {}", quote(text)))
      .hint(fmt::format("pass none, zstd, or zstd:1 to zstd:{}", kMaxZstdLevel));
}

// Returns "orbax, or null to discard the output".
std::string target_help() {
  std::vector<std::string> kept;
  std::vector<std::string> discarding;
  for (const Target& target : targets())
    (target.discards ? discarding : kept).push_back(target.name);
  return fmt::format("{}, or {} to discard the output", join(kept, ", "), join(discarding, ", "));
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.push_back(target.name);
  return names;
}

constexpr IoMode kIoModes[] = {IoMode::automatic, IoMode::direct, IoMode::buffered, IoMode::mmap};

std::vector<std::string> io_names() {
  std::vector<std::string> names;
  for (const IoMode mode : kIoModes) names.emplace_back(to_string(mode));
  return names;
}

OptionTable memory_table(RunFlags& flags) {
  return {{.name = "--max-memory",
           .to = &flags.max_memory,
           .value = "SIZE",
           .group = Group::run,
           .help = "most memory that hfshard uses; 512MiB is enough for headers of up to 40 MiB"},
          {.name = "--jobs",
           .letter = "-j",
           .to = &flags.jobs,
           .value = "N",
           .most = kMaxJobs,
           .group = Group::run,
           .help = "threads that compute",
           .standard = "one for each CPU that hfshard may use"},
          {.name = "--io",
           .to = &flags.io,
           .value = "MODE",
           .choices = io_names(),
           .group = Group::run,
           .help = "how hfshard reads and writes files: auto, direct, buffered or mmap"},
          {.name = "--io-threads",
           .to = &flags.io_threads,
           .value = "N",
           .most = 256,
           .group = Group::run,
           .help = "threads that read and write files"}};
}

}  // namespace

Target target_of(const std::string& name) {
  return name.empty() ? targets().front() : targets()[one_of(name, target_names(), "--to")];
}

Positional source_positional(PlanFlags& flags, std::string help) {
  return {.name = "SOURCE",
          .to = &flags.source,
          .offer = Offer::file_or_directory,
          .help = std::move(help)};
}

Positional out_positional(RunFlags& flags, std::string becomes) {
  return {.name = "OUT",
          .to = &flags.out,
          .required = false,
          .offer = Offer::directory,
          .help = "output directory; becomes " + std::move(becomes)};
}

OptionTable plan_table(PlanFlags& flags) {
  const OptionTable checkpoint = {
      revision_option(flags.revision),
      ignore_index_option(flags.ignore_index),
      {.name = "--to",
       .to = &flags.to,
       .value = "FORMAT",
       .choices = target_names(),
       .group = Group::checkpoint,
       .help = target_help(),
       .standard = targets().front().name},
      {.name = "--mesh",
       .to = &flags.meshes,
       .value = "NAME=N,...",
       .offer = Offer::axes,
       .group = Group::checkpoint,
       .help = "mesh of the devices that load the checkpoint",
       .standard = "fsdp, at most 16"},
      {.name = "--rules",
       .to = &flags.rules_file,
       .value = "FILE",
       .offer = Offer::file,
       .group = Group::checkpoint,
       .help = "JSON file of logical axis rules",
       .standard = "MaxText's"},
      {.name = "--chunk-bytes",
       .to = &flags.chunk_bytes,
       .value = "SIZE",
       .group = Group::checkpoint,
       .help = "largest chunk"},
      {.name = "--shard-bytes",
       .to = &flags.shard_bytes,
       .value = "SIZE",
       .group = Group::checkpoint,
       .help = "largest file of --to safetensors, unless one tensor is larger"},
      {.name = "--checksum",
       .to = &flags.checksum,
       .value = "crc32c|none",
       .choices = {"crc32c", "none"},
       .group = Group::checkpoint,
       .help = "checksum in every chunk"},
      {.name = "--compress",
       .to = &flags.compress,
       .value = "none|zstd[:LEVEL]",
       .choices = {"none", "zstd"},
       .open = true,
       .group = Group::checkpoint,
       .help = "compression of every chunk; LEVEL is 1 to 22, 1 by default"},
      {.name = "--output-step",
       .to = &flags.output_step,
       .value = "N",
       .group = Group::checkpoint,
       .help = "step to write, as OUT/N",
       .standard = "0"}};
  OptionTable mapping = mapping_table(flags.mapping);
  std::ranges::find(mapping, "--scheme", &Option::name)->standard =
      "maxtext, hf for --to dcp and safetensors";
  return joined({std::move(mapping), checkpoint});
}

OptionTable index_table(PlanFlags& flags) {
  OptionTable out = without(plan_table(flags), {"--to", "--compress", "--shard-bytes"});
  std::ranges::find(out, "--scheme", &Option::name)->standard = "maxtext";
  return out;
}

Option step_option(std::optional<std::uint64_t>& step) {
  return {.name = "--step",
          .to = &step,
          .value = "N",
          .group = Group::checkpoint,
          .help = "step to read",
          .standard = "the highest"};
}

Option items_option(std::string& items) {
  return {.name = "--items",
          .to = &items,
          .value = "NAME",
          .group = Group::checkpoint,
          .help = "item of a step to read",
          .standard = "the only one"};
}

OptionTable root_table(TreeFlags& flags) {
  return {step_option(flags.step),
          {.name = "--root",
           .to = &flags.root,
           .value = "KEY",
           .group = Group::checkpoint,
           .help = "read only this subtree of the checkpoint"},
          {.name = "--items",
           .to = &flags.items,
           .value = "NAME|all",
           .group = Group::checkpoint,
           .help = "item of a step to read; all: reshard the usual one, and copy the other items "
                   "as they are (a data iterator's state, JSON)",
           .standard = "the only one"}};
}

OptionTable reshard_table(TreeFlags& flags) {
  return {
      {.name = "--axes",
       .to = &flags.axes,
       .value = "GLOB=AXIS,...",
       .group = Group::checkpoint,
       .help = "logical axes of the arrays that match, one for each dimension; leave a dimension "
               "without an axis empty"},
      {.name = "--steps",
       .to = &flags.steps,
       .value = "all|N,...|-N",
       .choices = {"all"},
       .open = true,
       .group = Group::checkpoint,
       .help = "reshard several steps: all, these numbers, or the last N; each becomes OUT/N "
               "when it is complete, and steps that OUT already has are skipped"}};
}

OptionTable back_table(TreeFlags& flags) {
  return {{.name = "--config",
           .to = &flags.config,
           .value = "DIR",
           .offer = Offer::directory,
           .group = Group::model,
           .help = "directory with the model's config.json and tokenizer, for a SOURCE that "
                   "doesn't name its model"}};
}

OptionTable load_table(LoadFlags& flags) {
  return {{.name = "--load-mesh",
           .to = &flags.meshes,
           .value = "NAME=N,...",
           .offer = Offer::axes,
           .group = Group::load,
           .help = "show what each host reads when it loads the checkpoint on this mesh"},
          {.name = "--devices-per-host",
           .to = &flags.devices_per_host,
           .value = "N",
           .least = 1,
           .group = Group::load,
           .help = "devices of one host, for --load-mesh"}};
}

OptionTable run_table(RunFlags& flags) {
  return joined({memory_table(flags),
                 {{.name = "--worker",
                   .to = &flags.worker,
                   .value = "I/N",
                   .group = Group::run,
                   .help = "write only share I of N; hfshard finalize publishes the output"},
                  {.name = "--resume",
                   .to = &flags.resume,
                   .group = Group::run,
                   .help = "continue a stopped run; does nothing if the output is complete"},
                  {.name = "--overwrite",
                   .to = &flags.overwrite,
                   .group = Group::run,
                   .help = "replace the step that is there once the new one is complete"}}});
}

Option dry_run_option(RunFlags& flags) {
  return {.name = "--dry-run",
          .to = &flags.dry_run,
          .group = Group::run,
          .help = "print what hfshard plan prints, and write nothing"};
}

namespace {

// Separates globs of weight files from globs of tensor names, which never end in such extensions.
std::vector<std::string> split_file_globs(std::vector<std::string>& globs) {
  const auto is_file = [](const std::string& glob) {
    return std::ranges::any_of(std::array{".safetensors", ".bin", ".pt", ".pth"},
                               [&](const char* ending) { return glob.ends_with(ending); });
  };
  const auto files = std::stable_partition(globs.begin(), globs.end(), std::not_fn(is_file));
  std::vector<std::string> out(files, globs.end());
  globs.erase(files, globs.end());
  return out;
}

}  // namespace

PlanOptions plan_options(const PlanFlags& flags) {
  PlanOptions options;
  const Target target = target_of(flags.to);
  options.target = target.name;
  options.mapping = mapping_options(flags.mapping, target.scheme);
  options.files = {split_file_globs(options.mapping.include),
                   split_file_globs(options.mapping.exclude), flags.ignore_index};
  options.meshes = flags.meshes;
  options.chunk_bytes = bytes_of(flags.chunk_bytes, "--chunk-bytes");
  options.shard_bytes = bytes_of(flags.shard_bytes, "--shard-bytes");
  options.encoding.zstd_level = zstd_level(flags.compress);
  options.encoding.checksum = one_of(flags.checksum, {"crc32c", "none"}, "--checksum") == 0;
  options.step = flags.output_step;
  if (!flags.rules_file.empty()) {
    options.rules_text = read_file(flags.rules_file);
    options.rules_name = flags.rules_file;
  } else if (options.mapping.scheme == "hf" && !flags.meshes.empty() && !target.splits_dims) {
    throw Error(ErrorCode::usage, "--scheme hf has no logical axes, so --mesh needs --rules")
        .hint(
            "rules for --scheme hf name the dimensions dim_0, dim_1, ...: [[\"dim_0\", "
            "[\"fsdp\"]]]");
  }
  return options;
}

TreeOptions tree_options(const TreeFlags& flags) {
  TreeOptions out;
  out.axes = flags.axes;
  out.step = flags.step;
  out.root = flags.root;
  out.all_items = flags.items == "all";
  if (!out.all_items) out.items = flags.items;
  if (flags.config.empty()) return out;
  // The path of config.json means its directory, whose tokenizer is copied too.
  const std::filesystem::path path(flags.config);
  const bool is_file = path.filename() == "config.json" && !std::filesystem::is_directory(path);
  std::error_code unknown;
  if (!is_file && std::filesystem::is_regular_file(path, unknown)) {
    throw Error(ErrorCode::usage, "--config needs a directory with config.json, or that file")
        .in_file(flags.config);
  }
  out.config_name = is_file ? flags.config : flags.config + "/config.json";
  try {
    out.config_text = read_file(out.config_name);
  } catch (const Error& error) {  // it names the file, and the option takes a directory
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(error).hint("pass --config DIR, a directory with the model's config.json");
  }
  return out;
}

RunOptions run_options(const Session& session, const RunFlags& flags) {
  RunOptions options;
  options.limits = session.limits;
  options.out = flags.out;
  options.scratch_directory = variable("TMPDIR").value_or(options.scratch_directory);
  options.max_memory_bytes = bytes_of(flags.max_memory, "--max-memory");
  options.jobs = flags.jobs;
  options.io_threads = flags.io_threads;
  options.io = kIoModes[one_of(flags.io, io_names(), "--io")];
  options.resume = flags.resume;
  options.overwrite = flags.overwrite;
  if (flags.resume && flags.overwrite) {
    throw Error(ErrorCode::usage, "pass --resume or --overwrite, not both");
  }
  if (!flags.worker.empty()) parse_worker(flags.worker, options);
  return options;
}

}  // namespace hfshard
