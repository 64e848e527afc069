#pragma once

#include <string>
#include <vector>

#include "bytes/store/store.h"

namespace hfshard {

/// Finds checkpoints of all formats below a directory. Searches a few levels and a bounded number
/// of directories, and returns the first few. Doesn't return directories inside a checkpoint. Skips
/// what it can't read.
std::vector<std::string> checkpoints_below(const StorePath& directory);

}  // namespace hfshard
