#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "format/weight_files.h"

#include "hfshard/checkpoint.h"

namespace hfshard::format {

/// The files of a Hugging Face directory that make the model, and notes on ignored ones.
struct HfFiles {
  bool has_index = false;
  /// Relative. Sorted, or with an index as in HfIndex::files.
  std::vector<std::string> names;
  std::vector<std::string> notes;
};

/// Removes the files of a kind that the globs exclude from a directory's entries. Returns the
/// remaining files of that kind, sorted. Throws: usage (a glob without a match, or nothing
/// remains).
std::vector<std::string> leave_files(const StorePath& directory, const FileGlobs& globs,
                                     const WeightFiles& kind, std::vector<std::string>& entries);
/// Chooses all files that the globs left, with any name. Throws: as choose_without_index.
HfFiles choose_named(const StorePath& directory, const std::vector<std::string>& entries,
                     const std::vector<std::string>& left, const WeightFiles& kind);
/// Chooses among the entries of a directory without an index. Throws: not_found (no weights, or a
/// part is missing), unsupported (other weights only, an adapter), bad_input (ambiguous, partial
/// downloads).
HfFiles choose_without_index(const StorePath& directory, const std::vector<std::string>& entries,
                             const WeightFiles& kind);
/// Chooses the files of an index, with notes on ignored entries. As in transformers, an unlisted
/// whole file comes first. So does a complete series of shards if no listed file exists. Throws:
/// not_found (a listed file is missing), bad_input (because it is still being downloaded), as
/// choose_without_index.
HfFiles choose_with_index(const StorePath& directory, const std::vector<std::string>& entries,
                          const std::vector<std::string>& listed, const WeightFiles& kind);
/// Returns whether a file describes how a model was quantized. It belongs to the codes.
bool is_method_file(std::string_view name);
/// Returns the entries that are a model's side files: configs, tokenizer, chat template, model
/// code.
std::vector<std::string> find_side_files(const StorePath& directory,
                                         const std::vector<std::string>& entries);
/// How the note on files that are left behind begins.
inline constexpr std::string_view kLeftBehind = "neither read nor copied: ";
/// Returns a note on the entries that are not among `known` (sorted), or an empty text. Skips files
/// that `notes` name already. READMEs, licenses and pictures don't count. Throws: io.
std::string note_left_behind(const StorePath& directory, const std::vector<std::string>& entries,
                             const std::vector<std::string>& known,
                             const std::vector<std::string>& notes);
/// Returns which of a model's several files this one is, such as "shard 1 of 2", by its number or
/// an index among the entries. Empty if it's the only one.
std::string part_of_model(const StorePath& directory, const std::vector<std::string>& entries,
                          const std::string& name);
/// Refuses the entries of an adapter. Throws: unsupported.
void refuse_adapter(const StorePath& directory, const std::vector<std::string>& entries);

}  // namespace hfshard::format
