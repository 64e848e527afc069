#include "tool/plan_flags.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "base/zstd.h"
#include "tool/values.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

std::uint64_t bytes_of(const std::string& text, std::string_view flag) {
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes == 0) {
    throw Error(ErrorCode::usage, fmt::format("{} {} is not a size", flag, quote(text)))
        .hint("write 64MiB, 2GiB or a number of bytes");
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
        .hint("four workers are 0/4, 1/4, 2/4 and 3/4, then hfshard finalize OUT");
  }
}

// "none" is 0.
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
  throw Error(ErrorCode::usage, fmt::format("--compress {} is not known", quote(text)))
      .hint(fmt::format("known are none, zstd, and zstd:1 to zstd:{}", kMaxZstdLevel));
}

// "orbax, or null to discard the output (default orbax)".
std::string target_help() {
  std::vector<std::string> kept;
  std::vector<std::string> discarding;
  for (const Target& target : targets())
    (target.discards ? discarding : kept).push_back(target.name);
  return fmt::format("{}, or {} to discard the output (default {})", join(kept, ", "),
                     join(discarding, ", "), targets().front().name);
}

constexpr IoMode kIoModes[] = {IoMode::automatic, IoMode::direct, IoMode::buffered, IoMode::mmap};

IoMode io_mode(const std::string& text) {
  std::vector<std::string> names;
  for (const IoMode mode : kIoModes) names.emplace_back(to_string(mode));
  return kIoModes[one_of(text, names, "--io")];
}

}  // namespace

Target target_of(const std::string& name) {
  const std::vector<Target> known = targets();
  if (name.empty()) return known.front();
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const Target& target : known) names.push_back(target.name);
  return known[one_of(name, names, "--to")];
}

void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("SOURCE", flags.source, "HuggingFace directory or one .safetensors file")
      ->required();
  command.add_option("--to", flags.to, target_help());
  add_mapping_flags(command, flags.mapping);
  command
      .add_option("--mesh", flags.meshes,
                  "mesh that will load it, NAME=N,...; may be repeated (default fsdp, at most 16)")
      ->allow_extra_args(false);
  command.add_option("--rules", flags.rules_file, "logical axis rules, JSON (default MaxText's)");
  command.add_option("--chunk-bytes", flags.chunk_bytes, "largest chunk (default 64MiB)");
  command.add_option("--checksum", flags.checksum,
                     "crc32c in every chunk, or none (default crc32c)");
  command.add_option("--compress", flags.compress,
                     "zstd[:LEVEL], 1 (the default) to 22, in every chunk, or none (default none)");
  command.add_option("--step", flags.step, "step number of the checkpoint (default 0)")
      ->check(whole("--step"));
}

void add_run_flags(CLI::App& command, RunFlags& flags) {
  command.add_option("OUT", flags.out,
                     "output directory; becomes OUT/<step>/items (none if --to discards it)");
  command.add_option("--max-memory", flags.max_memory,
                     "bound on memory, 512MiB always suffices (default 2GiB)");
  command
      .add_option("-j,--jobs", flags.jobs,
                  "kernel threads (default: one for each CPU that this process may use)")
      ->check(whole("--jobs", 0, kMaxJobs));
  command.add_option("--io", flags.io,
                     "how file data moves: auto, direct, buffered or mmap (default auto)");
  command
      .add_option("--io-threads", flags.io_threads,
                  "threads beside the kernels', so that reads and writes keep the disk busy "
                  "(default 2)")
      ->check(whole("--io-threads", 0, 256));
  command.add_option("--worker", flags.worker, "run share I of N; publish with finalize");
  command.add_flag("--resume", flags.resume,
                   "go on where a stopped run ended; does nothing if it is complete");
  command.add_flag("--overwrite", flags.overwrite,
                   "replace an existing step when the new one is complete");
}

PlanOptions plan_options(const PlanFlags& flags) {
  PlanOptions options;
  const Target target = target_of(flags.to);
  options.target = target.name;
  options.mapping = mapping_options(flags.mapping);
  options.meshes = flags.meshes;
  options.chunk_bytes = bytes_of(flags.chunk_bytes, "--chunk-bytes");
  options.encoding.zstd_level = zstd_level(flags.compress);
  if (target.discards && options.encoding.zstd_level != 0) {
    throw Error(ErrorCode::usage,
                fmt::format("--to {} encodes nothing, so it takes no --compress", target.name));
  }
  options.encoding.checksum = one_of(flags.checksum, {"crc32c", "none"}, "--checksum") == 0;
  options.step = flags.step;
  if (!flags.rules_file.empty()) {
    options.rules_text = read_file(flags.rules_file);
    options.rules_name = flags.rules_file;
  } else if (options.mapping.scheme == "hf" && !flags.meshes.empty()) {
    throw Error(ErrorCode::usage, "--scheme hf has no logical axes, so --mesh needs --rules")
        .hint(
            "rules for --scheme hf name the dimensions dim_0, dim_1, ...: [[\"dim_0\", "
            "[\"fsdp\"]]]");
  }
  return options;
}

RunOptions run_options(const Session& session, const RunFlags& flags) {
  RunOptions options;
  options.limits = session.limits;
  options.out = flags.out;
  options.max_memory_bytes = bytes_of(flags.max_memory, "--max-memory");
  options.jobs = flags.jobs;
  options.io_threads = flags.io_threads;
  options.io = io_mode(flags.io);
  options.resume = flags.resume;
  options.overwrite = flags.overwrite;
  if (flags.resume && flags.overwrite) {
    throw Error(ErrorCode::usage, "--resume and --overwrite exclude each other");
  }
  if (!flags.worker.empty()) parse_worker(flags.worker, options);
  return options;
}

}  // namespace hfshard
