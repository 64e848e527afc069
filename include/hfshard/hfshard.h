#pragma once

#include <cstdint>
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

/// The library: everything that the command line does, for other programs. Nothing here prints,
/// reads the environment or ends the process; several calls may run in one process at once. The one
/// signal that is touched is SIGBUS, with IoMode::mmap alone, and it is passed on (docs/adr/0017).
/// Failures are thrown as Error. Memory is bounded per call by RunOptions::max_memory_bytes, which
/// does not count what the process holds otherwise. Threads are oneTBB's, in an arena of each call;
/// its bound on the threads of the process is raised while they are on (docs/adr/0021).
namespace hfshard {

/// A format that can be written.
struct Target {
  std::string name;           ///< for PlanOptions::target
  bool discards = false;      ///< nothing is kept of what is written
  std::string scheme;         ///< for MappingOptions::scheme, unless another one is asked for
  bool whole_arrays = false;  ///< arrays are not cut into chunks: PlanOptions::shard_bytes
  bool splits_dims =
      false;  ///< a mesh cuts dims by their numbers where nothing says what they mean
};
/// All of them; the first one is written unless another one is asked for.
std::vector<Target> targets();

/// The mesh axes that PlanOptions::meshes may name, unless it has rules of its own; sorted.
std::vector<std::string> mesh_axes();

/// What `plan` is asked beside the plan itself.
struct PlanQuestions {
  std::vector<std::string> load_meshes;  ///< what loading the output on each of these would cost
  std::uint64_t devices_per_host = 1;
  std::uint64_t most_leaves = UINT64_MAX;  ///< that the report lists: a hundred thousand take 50 MB
  bool measure =
      false;  ///< estimate the time: reads and writes a few MB, and leaves nothing behind
};

/// Plans a conversion; reads headers only. With RunOptions::out, what a run would refuse there is
/// thrown: conflict. Throws: usage, bad_input, corrupt, unsupported, not_found, io.
PlanReport plan(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                const PlanQuestions& questions = {});

/// Converts `source` into RunOptions::out, or one worker's share of it. Throws: as plan; limit
/// (memory, disk), conflict (the output, another run), cancelled; what is written stays, resumable.
ConvertReport convert(const SourceName& source, const PlanOptions& options, const RunOptions& run,
                      Reporter& reporter);

/// What cannot be linked is converted into side data files; more of it is written only if that was
/// asked for, since `link` is about not copying.
inline constexpr std::uint64_t kMostSideBytes = std::uint64_t{1} << 30;

/// How `link` treats what cannot be linked, and the files that are.
struct LinkOptions {
  bool in_place = false;  ///< the index goes into the source's directory, which is the output too
  bool side_file =
      false;             ///< side data may be written: in_place any, else more than kMostSideBytes
  bool digests = false;  ///< read what is linked and record its digests
};

/// Makes the same tree with no copy: an index over the safetensors files. Throws: as convert;
/// unsupported, listing what cannot be linked; usage (too much of it, without side_file).
ConvertReport link(const SourceName& source, const PlanOptions& options, const LinkOptions& link,
                   const RunOptions& run, Reporter& reporter);

/// Publishes an output that N workers wrote; one that is published is RunResult::already_done.
/// Throws: conflict naming the missing shares, not_found (no run was started).
ConvertReport finalize(const RunOptions& run, Reporter& reporter, const HubOptions& hub = {});

/// Removes the staging directory of an unfinished output, and puts back what a killed run had moved
/// there. Throws: conflict (it is in use, or not ours), io.
CleanReport clean(const std::string& out);

/// Checks an output: against the digests that it carries, or, with a `source`, byte for byte.
/// Differences are results, not errors. Throws: not_found (an unfinished one too), corrupt
/// (manifest, metadata), limit, io.
VerifyResult verify(const std::string& out, const SourceName& source, const RunOptions& run,
                    Reporter& reporter);

/// Compares two checkpoints of any formats, by names or through the mapping of their model.
/// Differences and damage are results, not errors. Memory: as convert. Throws: as open; usage
/// (nothing says how they belong together), limit, io.
DiffResult diff(const SourceName& a, const SourceName& b, const DiffOptions& options,
                const RunOptions& run, Reporter& reporter);

/// Opens a checkpoint of any format to read its elements. Throws: not_found, corrupt, unsupported,
/// io.
CheckpointReader open(const SourceName& place);

/// Says what is in a checkpoint of any format; damage is a result, not an error. Memory: names, a
/// buffer, or one cell of at most 128 MiB, and a decoder. Throws: as open; limit, not_found (an
/// output whose run has not ended, with how to go on).
InspectReport inspect(const SourceName& place, const InspectOptions& options, Reporter& reporter);

}  // namespace hfshard
