#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool/cli.h"
#include "tool/mapping_flags.h"
#include "tool/options.h"

#include "hfshard/hfshard.h"

namespace hfshard {

/// More threads than any machine has CPUs.
inline constexpr std::uint64_t kMaxJobs = 65536;

/// The flags that convert and plan share, as typed.
struct PlanFlags {
  std::string source;
  std::string revision;
  std::string to;
  MappingFlags mapping;
  std::vector<std::string> meshes;
  std::string rules_file;
  std::string chunk_bytes = "64MiB";
  std::string shard_bytes = "5GB";
  std::string checksum = "crc32c";
  std::string compress = "none";
  std::uint64_t step = 0;
};

/// The flags of sources that are trees of arrays.
struct TreeFlags {
  std::vector<std::string> axes;  ///< GLOB=AXIS,...
  std::string config;             ///< directory
  std::optional<std::uint64_t> step;
  std::string root;   ///< key of a subtree
  std::string items;  ///< name of one of a step's trees, or "all"
};

/// The flags that ask what loading costs.
struct LoadFlags {
  std::vector<std::string> meshes;
  std::uint64_t devices_per_host = 1;
};

/// The flags of a run.
struct RunFlags {
  std::string out;
  std::string max_memory = "2GiB";
  unsigned jobs = 0;
  unsigned io_threads = 2;
  std::string io = "auto";
  std::string worker;  ///< "I/N"
  bool resume = false;
  bool overwrite = false;
  bool dry_run = false;
  bool keep_files = false;
};

// What is typed goes to `flags`, which must outlive the parsing.

Positional source_positional(PlanFlags& flags);
Positional out_positional(RunFlags& flags, std::string becomes =
                                               "OUT/<step>/items, or with --to safetensors the "
                                               "model's directory (none if --to discards it)");
OptionTable plan_table(PlanFlags& flags);
/// Of a plan that links, to the one format that can.
OptionTable index_table(PlanFlags& flags);
/// --root and --items, of a SOURCE that is a tree of arrays.
OptionTable root_table(TreeFlags& flags);
/// --axes.
OptionTable reshard_table(TreeFlags& flags);
/// --config.
OptionTable back_table(TreeFlags& flags);
/// --load-mesh and --devices-per-host.
OptionTable load_table(LoadFlags& flags);
OptionTable run_table(RunFlags& flags);
/// --dry-run.
Option dry_run_option(RunFlags& flags);

/// Checks and converts. Throws: usage.
PlanOptions plan_options(const PlanFlags& flags);
/// Reads the config. Throws: as above; not_found, io.
TreeOptions tree_options(const TreeFlags& flags);
RunOptions run_options(const Session& session, const RunFlags& flags);

/// Plans and prints, as `plan` does and --dry-run of the commands that write; `most_leaves` of the
/// questions is set here. Returns the exit status. Throws: as plan.
int show_plan(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& run, PlanQuestions questions = {});

/// The target of that name; of an empty one, the default target. Throws: usage.
Target target_of(const std::string& name);

}  // namespace hfshard
