#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/format.h"
#include "format/weight_files.h"

namespace hfshard::format {

/// The header of one file with weights.
struct WeightHeader {
  FileIdentity identity;                         ///< when it was read
  std::string sha256;                            ///< hex, of the tensors' description
  std::vector<TensorInfo> tensors;               ///< `file` is 0; offsets absolute
  std::vector<std::string> metadata = {};        ///< keys of notes by people
  std::vector<UnreadableArray> unreadable = {};  ///< tensors that are left out
  std::vector<SharedName> shared = {};           ///< names that aren't in `tensors`
};
/// Reads the header of a file; with `despite_loss`, also of a truncated one.
using HeaderReader = std::function<WeightHeader(const StorePath& path, bool despite_loss)>;

/// Opens a directory's files of one kind. `entries` are the directory's names. Takes an index, one
/// file, or several files without an index. The index and the headers must agree. Throws:
/// not_found, bad_input, unsupported (an adapter), io, as `read`; each names file and tensor.
Catalog open_hf_directory(const StorePath& location, std::vector<std::string> entries,
                          const Choice& choice, const WeightFiles& kind, const HeaderReader& read);
/// Opens one file, with the config.json next to it. If it isn't a shard, also takes the model's
/// other side files next to it. Throws: as open_hf_directory.
Catalog open_hf_file(const StorePath& location, const HeaderReader& read);
/// Returns whether a location is a file, not a directory. Throws: not_found (nothing there), usage
/// (globs choose files, but the location is one).
bool is_one_file(const StorePath& location, const Choice& choice);
/// Returns the terms that reports use for a Hugging Face model.
Wording hf_wording();
/// Reads config.json. Empty if the directory doesn't have it. Throws: bad_input (it is empty), io.
std::string read_hf_config(const StorePath& directory);

/// Returns the tensor names of a directory with config.json and an index of that kind, but without
/// the files that the index lists. Empty for any other location. Throws: bad_input (index), io.
std::optional<NameList> open_hf_names(const StorePath& location,
                                      const WeightFiles& kind = kSafetensorsFiles);

}  // namespace hfshard::format
