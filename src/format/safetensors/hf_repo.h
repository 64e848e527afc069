#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytes/store.h"

#include "hfshard/checkpoint.h"

namespace hfshard::format::safetensors {

/// Which safetensors files of a HuggingFace directory make the model, and what is left aside.
struct HfFiles {
  bool has_index = false;
  std::vector<std::string> names;  ///< relative; sorted (with an index: HfIndex::files)
  std::vector<std::string> notes;
};

/// Takes those safetensors files off the entries of a directory that the globs leave aside, and
/// returns them, sorted. Throws: usage (a glob that is for no file, nothing is left).
std::vector<std::string> leave_files(const StorePath& directory, const FileGlobs& globs,
                                     std::vector<std::string>& entries);
/// All that globs have left of the entries, whatever they are called. Throws: as
/// choose_without_index.
HfFiles choose_named(const StorePath& directory, const std::vector<std::string>& entries);
/// Chooses among the entries of a directory that has no index. Throws: not_found (nothing there, or
/// a part is missing), unsupported (other weights only, an adapter), bad_input (cannot choose,
/// partial downloads).
HfFiles choose_without_index(const StorePath& directory, const std::vector<std::string>& entries);
/// Notes on entries that an index leaves out. Throws: not_found (a listed file is missing),
/// bad_input (because it is still being downloaded).
HfFiles choose_with_index(const StorePath& directory, const std::vector<std::string>& entries,
                          const std::vector<std::string>& listed);
/// Those entries that go along with a model: configs, tokenizer, chat template, model code.
std::vector<std::string> find_side_files(const StorePath& directory,
                                         const std::vector<std::string>& entries);
/// Throws: unsupported, if the entries are those of an adapter.
void refuse_adapter(const StorePath& directory, const std::vector<std::string>& entries);

}  // namespace hfshard::format::safetensors
