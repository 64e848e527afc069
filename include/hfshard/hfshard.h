#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/diff.h"
#include "hfshard/error.h"
#include "hfshard/fetch.h"
#include "hfshard/hub.h"
#include "hfshard/inspect.h"
#include "hfshard/mappings.h"
#include "hfshard/plan.h"
#include "hfshard/reader.h"
#include "hfshard/report.h"
#include "hfshard/verify.h"

/// The library: everything that the command line does, for other programs. It doesn't print, read
/// the environment or end the process. Several calls can run in one process at once. It handles one
/// signal, SIGBUS, with IoMode::mmap alone, and passes it on (docs/adr/0017). Failures are thrown
/// as Error. RunOptions::max_memory_bytes bounds the memory of each call, without other memory of
/// the process. Threads are oneTBB's, in an arena for each call. A call raises oneTBB's bound on
/// the threads of the process while it runs (docs/adr/0021).
namespace hfshard {

/// A format that hfshard writes.
struct Target {
  std::string name;           ///< for PlanOptions::target
  bool discards = false;      ///< writes nothing
  std::string scheme;         ///< default MappingOptions::scheme
  bool whole_arrays = false;  ///< no chunks: PlanOptions::shard_bytes
  /// A mesh splits dims by their numbers if no rule states their meaning.
  bool splits_dims = false;
};
/// Returns all formats. The first one is the default.
std::vector<Target> targets();

/// Returns the mesh axes of the default axis rules, for PlanOptions::meshes; sorted.
std::vector<std::string> mesh_axes();

/// Options of `plan`.
struct PlanQuestions {
  std::vector<std::string> load_meshes;  ///< report the cost of loading
  std::uint64_t devices_per_host = 1;
  /// Leaves in the report. 100,000 of them take 50 MB.
  std::uint64_t most_leaves = UINT64_MAX;
  /// Estimate the time. This reads and writes a few MB, and removes them.
  bool measure = false;
};

/// Plans a conversion. Reads headers only. Throws: usage, bad_input, corrupt, unsupported,
/// not_found, io; with RunOptions::out, conflict as a run there would.
PlanReport plan(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                const PlanQuestions& questions = {});

/// Converts `source` into RunOptions::out, or one worker's share of it. On errors, the work so far
/// is kept for a resume. Throws: as plan; limit (memory, disk), conflict (the output, another run),
/// cancelled.
ConvertReport convert(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                      Reporter& reporter);

/// Steps of a root: all, some numbers, or the last ones.
struct StepList {
  bool all = false;
  std::uint64_t last = 0;
  std::vector<std::uint64_t> numbers;
};

/// Reshards several steps of a root, each as convert does (TreeOptions::same). Publishes each step
/// when it is complete, under its own number. For a format without steps, each gets its own
/// directory in OUT. Skips steps that OUT has with the same plan. Calls `done` after each step.
/// Writes nothing unless all steps are complete and OUT can take them. Throws: as convert; usage
/// (SOURCE has no steps, workers), not_found (a missing or incomplete step, with the steps that
/// exist).
std::vector<ConvertReport> convert_steps(const SourceName& source, const PlanOptions& options,
                                         const StepList& steps, const RunOptions& run,
                                         Reporter& reporter,
                                         const std::function<void(const ConvertReport&)>& done);

/// The most bytes that `link` copies without LinkOptions::side_file. Leaves that can't be linked
/// are converted into side data files.
inline constexpr std::uint64_t kMostSideBytes = std::uint64_t{1} << 30;

/// Options of `link`.
struct LinkOptions {
  bool in_place = false;  ///< write the index into the source's directory
  /// Allow side data files: any with in_place, else more than kMostSideBytes.
  bool side_file = false;
  bool digests = false;  ///< read linked data and record its digests
};

/// Writes the same tree as convert without a copy: an index over the safetensors files. Throws: as
/// convert; unsupported (lists leaves that can't be linked), usage (too many of them, without
/// side_file).
ConvertReport link(const SourceName& source, const PlanOptions& options, const LinkOptions& link,
                   const RunOptions& run, Reporter& reporter);

/// Publishes an output that N workers wrote. If it is published already, sets
/// RunResult::already_done. Throws: conflict (names the missing shares), not_found (no run was
/// started).
ConvertReport finalize(const RunOptions& run, Reporter& reporter, const HubOptions& hub = {});

/// Removes the staging directory of an unfinished output. Puts back files that a killed run had
/// moved there. Throws: conflict (it is in use, or hfshard didn't write it), io.
CleanReport clean(const std::string& out);

/// Verifies an output against its recorded digests or, with a `source`, byte for byte. Differences
/// are results, not errors. Throws: not_found (also for an unfinished output), corrupt (manifest,
/// metadata), limit, io.
VerifyResult verify(const SourceName& out, const SourceName& source, const RunOptions& run,
                    Reporter& reporter);

/// Compares two checkpoints of any formats, by names or through the mapping of their model.
/// Differences and damage are results, not errors. Memory: as convert. Throws: as open; usage
/// (nothing relates them), limit, io.
DiffResult diff(const SourceName& a, const SourceName& b, const DiffOptions& options,
                const RunOptions& run, Reporter& reporter);

/// Opens a checkpoint of any format to read its elements. Throws: not_found, corrupt, unsupported,
/// io.
CheckpointReader open(const SourceName& place);

/// Describes a checkpoint of any format. Damage is a result, not an error. Memory: names, a buffer
/// or one cell of at most 128 MiB, and a decoder. Throws: as open; limit, not_found (an unfinished
/// output; the hint says how to resume it).
InspectReport inspect(const SourceName& place, const InspectOptions& options, Reporter& reporter);

}  // namespace hfshard
