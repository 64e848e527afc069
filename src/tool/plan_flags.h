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
  bool ignore_index = false;
  std::string to;
  MappingFlags mapping;
  std::vector<std::string> meshes;
  std::string rules_file;
  std::string chunk_bytes = "64MiB";
  std::string shard_bytes = "5GB";
  std::string checksum = "crc32c";
  std::string compress = "none";
  std::optional<std::uint64_t> output_step;
};

/// The flags for sources that are trees of arrays.
struct TreeFlags {
  std::vector<std::string> axes;      ///< GLOB=AXIS,...
  std::string config;                 ///< directory
  std::optional<std::uint64_t> step;  ///< of the source
  std::string steps;                  ///< several: "all", "3,10", "-2"
  std::string root;                   ///< key of a subtree
  std::string items;                  ///< name of one of a step's trees, or "all"
};

/// The flags that ask for the cost of loading.
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

// The options write to `flags`, which must outlive the parsing.

Positional source_positional(PlanFlags& flags, std::string help);
Positional out_positional(RunFlags& flags, std::string becomes =
                                               "OUT/<step>/items, or with --to safetensors the "
                                               "model's directory (none if --to discards it)");
OptionTable plan_table(PlanFlags& flags);
/// Returns the options of a plan that links, which only Orbax outputs can.
OptionTable index_table(PlanFlags& flags);
/// Returns --step, for commands that read a checkpoint.
Option step_option(std::optional<std::uint64_t>& step);
/// Returns --items NAME, for commands that read one item of a step.
Option items_option(std::string& items);
/// Returns --step, --root and --items, for a SOURCE that is a tree of arrays.
OptionTable root_table(TreeFlags& flags);
/// Returns --axes and --steps.
OptionTable reshard_table(TreeFlags& flags);
/// Returns --config.
OptionTable back_table(TreeFlags& flags);
/// Returns --load-mesh and --devices-per-host.
OptionTable load_table(LoadFlags& flags);
OptionTable run_table(RunFlags& flags);
/// Returns --dry-run.
Option dry_run_option(RunFlags& flags);

/// Checks and converts the flags. Throws: usage.
PlanOptions plan_options(const PlanFlags& flags);
/// Reads the config. Throws: as above; not_found, io.
TreeOptions tree_options(const TreeFlags& flags);
RunOptions run_options(const Session& session, const RunFlags& flags);

/// Plans and prints, for `plan` and --dry-run. This function sets `most_leaves` of the questions.
/// Returns the exit status. Throws: as plan.
int show_plan(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& run, PlanQuestions questions = {});

/// Returns the target with this name, or the default target for an empty name. Throws: usage.
Target target_of(const std::string& name);

}  // namespace hfshard
