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

/// A leaf that could not be linked, and why.
struct NotLinkedLeaf {
  std::string path;
  std::string why;
};

/// Source data that the output has in another dtype.
struct DTypeChange {
  std::string from;                ///< a dtype, or the kind of codes: "int4"
  std::string to;                  ///< of the leaves
  bool decoded = false;            ///< codes with scales; else a cast
  std::uint64_t source_bytes = 0;  ///< scales too
  std::uint64_t output_bytes = 0;
};

/// What one host reads of a checkpoint that it loads.
struct HostRead {
  std::uint64_t needed_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t requests = 0;
};

/// What loading the output on a mesh costs.
struct LoadReport {
  std::string mesh;
  std::vector<HostRead> hosts;
  std::uint64_t needed_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t largest_request_bytes = 0;
  std::vector<std::string> refused;  ///< leaves whose requests Orbax's byte limiter refuses
};

/// What a plan says before anything moves.
struct PlanSummary {
  std::string id;                        ///< 64 hex digits
  std::string identity;                  ///< the parts of the id, JSON
  std::string family;                    ///< "qwen3"; "hf" where names and shapes stay
  std::string scheme;                    ///< one of list_schemes()
  std::string dialect;                   ///< of scheme "hf", unless it is "files"
  bool stacked = false;                  ///< layers are stacked
  bool compresses = false;               ///< so that output_bytes is a bound
  std::string source;                    ///< as it was named
  std::vector<std::string> meshes;       ///< "fsdp=16,expert=2"; one device is empty
  bool mesh_chosen = false;              ///< nobody named one
  std::vector<std::string> notes;        ///< of the source and of the mapping
  std::vector<std::string> warnings;     ///< what may be a mistake of the source's
  std::vector<DroppedTensors> drops;     ///< by reason
  std::vector<std::string> model_names;  ///< values of MaxText's model_name that fit, best first
  std::string load_path;  ///< option of the loader that names RunResult::path; empty: not known
  std::vector<std::string> load_words;  ///< what else it is told, as NAME=VALUE
  bool carries_tokenizer = false;       ///< side files go to side_directory
  std::string side_directory;           ///< below OUT: "hf"; empty: OUT itself

  std::uint64_t parameters = 0;     ///< elements of the leaves that hold real numbers
  std::vector<DTypeChange> dtypes;  ///< what is decoded or cast, by dtypes
  std::uint64_t source_files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t source_bytes = 0;    ///< that are read
  std::uint64_t shared_tensors = 0;  ///< that feed several leaves; read once for each
  std::uint64_t output_bytes = 0;    ///< data files, alignment included
  std::uint64_t files = 0;
  std::uint64_t leaves = 0;
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  std::uint64_t largest_unit_bytes = 0;  ///< memory of the largest closed group of chunks

  bool whole_arrays = false;  ///< arrays are not cut: there are no chunks to speak of, nor meshes
  bool links = false;         ///< chunks are bytes of the source's files where they can be
  std::uint64_t linked_leaves = 0;
  std::uint64_t linked_bytes = 0;
  std::uint64_t linked_chunks = 0;
  std::vector<NotLinkedLeaf> not_linked;
  std::vector<LoadReport> loads;  ///< of such a plan: on each of its meshes, a device a host
};

/// One leaf of a plan.
struct PlannedLeaf {
  std::string path;
  DType dtype = DType::bf16;
  Shape shape;
  std::vector<std::string> axes;  ///< logical axis per dim, "" where one has none
  Shape shard;
  Shape chunk;
  std::optional<Shape> inner;  ///< inner chunk, where there is one
  bool linked = false;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
};

/// Memory that a run of a plan takes, and the threads that it is for.
struct MemoryNeed {
  std::uint64_t need_bytes = 0;     ///< the smallest --max-memory that every command accepts
  std::uint64_t control_bytes = 0;  ///< of it, for the plan itself
  std::uint64_t peak_bytes = 0;     ///< with the bound that was asked for
  unsigned kernel_threads = 0;      ///< as asked for, or the CPUs that the process may use
  unsigned threads = 0;             ///< with those for reads and writes
};

/// How long a run may take, by a short trial of this machine: reading the source, writing where the
/// output would go, converting a sample. Not part of the plan; two trials differ.
struct TimeEstimate {
  double seconds = 0;
  double read_seconds = 0;  ///< each of these if there were nothing else to do
  double write_seconds = 0;
  double processor_seconds = 0;
  bool one_disk = false;  ///< which reads and writes by turns
  std::string limit;      ///< what takes longest: "reading", "writing", "processor"
};

/// Everything that `plan` says.
struct PlanReport {
  PlanSummary summary;
  std::vector<PlannedLeaf> leaves;  ///< the first PlanQuestions::most_leaves of summary.leaves
  MemoryNeed memory;
  std::vector<LoadReport> loads;
  std::uint64_t scratch_bytes = 0;  ///< disk for a while, for arrays that memory does not hold
  std::optional<std::uint64_t> free_bytes;  ///< where the output would go; absent without OUT
  std::optional<TimeEstimate> time;         ///< if PlanQuestions::measure
  std::string why_no_time;                  ///< why it was not to be had
  std::optional<Error> refusal;             ///< what a run would refuse with before it begins
};

/// What a run did, and what for.
struct ConvertReport {
  PlanSummary plan;
  RunResult run;
};

/// What `clean` did.
struct CleanReport {
  std::string path;      ///< of the staging directory
  bool removed = false;  ///< false: it was not there
};

}  // namespace hfshard
