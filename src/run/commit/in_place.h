#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "run/commit/recover.h"
#include "run/commit/staging.h"

namespace hfshard {

/// The files of a staged index that is to stand in a directory which holds other things too. Paths
/// are relative to both.
struct IndexFiles {
  std::vector<std::string> files;  ///< all; the last one is what makes a directory a checkpoint
  std::vector<std::string> stale;  ///< of the index that is replaced, and of no use afterwards
};

/// Moves the files of a staged, synced index into OUT, and those that have their names there into
/// staging. Until the last one has its name, take_back_index undoes all of it. Throws: io.
void place_index(const OutPaths& paths, const IndexFiles& index);
/// Reads what place_index has noted. If the last file is in place, it is published; if not, OUT is
/// made what it was before, and the note is removed. Throws: io.
StagingUse take_back_index(const OutPaths& paths, const Json& mark);
/// Only tells.
StagingUse index_use(const OutPaths& paths, const Json& mark);
/// True if a note is of place_index.
bool is_index_mark(const Json& mark);

}  // namespace hfshard
