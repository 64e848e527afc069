#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// Source tensors that a mapping leaves out, by reason.
struct DroppedTensors {
  std::string why;
  std::vector<std::string> names;
};

/// A leaf that can't be linked, and the reason.
struct NotLinkedLeaf {
  std::string path;
  std::string why;
};

/// Source data that gets another dtype in the output.
struct DTypeChange {
  std::string from;                ///< a dtype, or quantization: "int4"
  std::string to;                  ///< dtype of the leaves
  bool decoded = false;            ///< dequantized, not cast
  std::uint64_t source_bytes = 0;  ///< with scales
  std::uint64_t output_bytes = 0;
};

/// The bytes that one host reads to load a checkpoint.
struct HostRead {
  std::uint64_t needed_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t requests = 0;
};

/// The cost of loading an output on a mesh.
struct LoadReport {
  std::string mesh;
  std::vector<HostRead> hosts;
  std::uint64_t needed_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t largest_request_bytes = 0;
  std::vector<std::string> refused;  ///< by Orbax's byte limiter
};

/// The description of a plan.
struct PlanSummary {
  std::string id;                          ///< 64 hex digits
  std::string identity;                    ///< the parts of the id, JSON
  std::string family;                      ///< "qwen3"; "hf" if names stay
  std::string scheme;                      ///< one of list_schemes()
  std::string dialect;                     ///< for scheme "hf", except "files"
  bool stacked = false;                    ///< layers are stacked
  bool compresses = false;                 ///< output_bytes is an upper bound
  std::string source;                      ///< as given by the user
  std::optional<std::uint64_t> step;       ///< the one that is read, if any
  std::vector<std::uint64_t> other_steps;  ///< ascending
  std::vector<std::string> meshes;         ///< "fsdp=16"; empty for one device
  bool mesh_chosen = false;                ///< by hfshard, not by the user
  std::vector<std::string> notes;          ///< from source and mapping
  std::vector<std::string> warnings;       ///< possible mistakes
  std::vector<DroppedTensors> drops;       ///< by reason
  std::vector<std::string> model_names;    ///< MaxText's, best match first
  std::string load_path;                   ///< the loader's option for the output
  /// The loader's two options for a run, and the directory of its steps.
  std::vector<std::string> load_run;
  std::vector<std::string> load_words;  ///< more arguments: NAME=VALUE or flags
  std::string load_note;                ///< a sentence about them, or empty
  std::string load_assets;              ///< the loader's option for a tokenizer
  bool carries_tokenizer = false;       ///< copies one to side_directory
  std::string side_directory;           ///< in OUT: "hf", or empty for OUT

  std::uint64_t parameters = 0;     ///< elements that are real numbers
  std::vector<DTypeChange> dtypes;  ///< decoded or cast data
  std::uint64_t source_files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t objects = 0;         ///< copied; they aren't tensors
  std::uint64_t source_bytes = 0;    ///< to be read
  std::uint64_t shared_tensors = 0;  ///< read once for each of several leaves
  std::uint64_t output_bytes = 0;    ///< data files, alignment included
  std::uint64_t files = 0;
  std::uint64_t leaves = 0;
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  std::uint64_t largest_unit_bytes = 0;  ///< largest closed group of chunks

  bool whole_arrays = false;  ///< no chunks, no meshes
  bool links = false;         ///< chunks can be in the source's files
  std::uint64_t linked_leaves = 0;
  std::uint64_t linked_bytes = 0;
  std::uint64_t linked_chunks = 0;
  std::vector<NotLinkedLeaf> not_linked;
  std::vector<LoadReport> loads;  ///< if it links; per mesh, one device a host
};

/// One leaf of a plan.
struct PlannedLeaf {
  std::string path;
  DType dtype = DType::bf16;
  Shape shape;
  std::vector<std::string> axes;  ///< logical axis per dim, or ""
  Shape shard;
  Shape chunk;
  std::optional<Shape> inner;  ///< inner chunk
  bool linked = false;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
};

/// The memory of a run, and the threads that it is for.
struct MemoryNeed {
  std::uint64_t need_bytes = 0;     ///< smallest --max-memory for all commands
  std::uint64_t control_bytes = 0;  ///< the plan's part
  std::uint64_t peak_bytes = 0;     ///< with the given --max-memory
  unsigned kernel_threads = 0;      ///< --jobs, or the usable CPUs
  unsigned threads = 0;             ///< all, with reads and writes
};

/// The estimated time of a run. A short trial reads the source, writes to the output's disk, and
/// converts a sample. Not part of the plan, since two trials differ.
struct TimeEstimate {
  double seconds = 0;
  double read_seconds = 0;  ///< each stage alone
  double write_seconds = 0;
  double processor_seconds = 0;
  bool one_disk = false;  ///< for reads and writes
  std::string limit;      ///< "reading", "writing" or "processor"
};

/// The result of `plan`.
struct PlanReport {
  PlanSummary summary;
  std::vector<PlannedLeaf> leaves;  ///< at most PlanQuestions::most_leaves
  MemoryNeed memory;
  std::vector<LoadReport> loads;
  std::uint64_t scratch_bytes = 0;          ///< temporary disk space
  std::optional<std::uint64_t> free_bytes;  ///< on the output's disk
  std::optional<TimeEstimate> time;         ///< if PlanQuestions::measure
  std::string why_no_time;                  ///< the reason if `time` is absent
  std::optional<Error> refusal;             ///< a run would fail with it
};

/// The result of `convert` and `link`.
struct ConvertReport {
  PlanSummary plan;
  RunResult run;
};

/// The result of `clean`.
struct CleanReport {
  std::string path;      ///< of the staging directory
  bool removed = false;  ///< false if it didn't exist
};

}  // namespace hfshard
