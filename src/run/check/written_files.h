#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"

#include "hfshard/convert.h"
#include "hfshard/verify.h"

namespace hfshard {

/// A recorded file of an output.
struct FileRecord {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::string sha256;  ///< hex; empty for a data file, whose arrays and objects have digests
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

/// All files of an output that aren't linked, sorted by path. Empty in records before 0.2.0.
struct WrittenFiles {
  std::vector<FileRecord> data;  ///< data files; paths are relative to the step directory
  std::vector<FileRecord> step;  ///< the other files there
  std::vector<FileRecord> side;  ///< names in FileLayout::side_directory
  std::vector<FileRecord> root;  ///< Beside::root_files, relative to the directory of all steps
};

/// Reads and records what is staged, except files that are only linked, and the record itself. It
/// takes the sizes of data files. `step`, `side`, `root`: directories; an empty `side`, or one that
/// isn't there, has no files. Throws: io, cancelled.
WrittenFiles written_files(const Plan& plan, const std::string& step, const std::string& side,
                           const std::string& root, const RunOptions& options);

/// Returns the SHA-256 of a file's bytes, in hex. Throws: io, cancelled.
std::string sha256_of(const SourceFile& file, const RunOptions& options);

Json json_file(const FileRecord& file);
/// Throws: corrupt (a path that leads outside of its directory).
std::vector<FileRecord> read_files(const Json& list);

/// Adds a difference for each recorded file of `directory` that is missing or has other bytes.
/// Throws: io, cancelled.
void verify_files(const std::vector<FileRecord>& recorded, const std::string& directory,
                  const RunOptions& options, VerifyResult& result);

/// Adds a difference for each data file of a step whose size isn't the written one. Names a shorter
/// file only if no array or object shows the missing bytes. Throws: io.
void verify_data_sizes(const std::vector<FileRecord>& recorded, const std::string& step,
                       VerifyResult& result);

/// Checks that the output of a plan still has its files. Those of the step and of the run must have
/// their recorded sizes. Reads no data. `side`, `root`: as above. Throws: conflict (naming a file
/// that is lost), io.
void check_still_there(const Plan& plan, const WrittenFiles& files, const std::string& step,
                       const std::string& side, const std::string& root);

/// Compares the files that were copied from the source, except config.json, with the source: other
/// items of a step, metadata of a run, a tokenizer. Adds a difference for each that differs. `plan`
/// is built from the source with the recorded options; `side`: as above. Skips missing files, which
/// verify_files reports. Throws: io, cancelled.
void verify_source_files(const Plan& plan, const std::string& step, const std::string& side,
                         const RunOptions& options, VerifyResult& result);

}  // namespace hfshard
