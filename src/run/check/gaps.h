#pragma once

#include <string>
#include <vector>

#include "catalog/checkpoint.h"
#include "run/check/written_files.h"

#include "hfshard/convert.h"
#include "hfshard/verify.h"

namespace hfshard {

/// Adds a difference for each data file with a byte outside of all pieces that isn't 0. Alignment
/// leaves such bytes. Skips files of another size, and those without pieces. `recorded`: the data
/// files; `step`: their directory. Throws: io, cancelled.
void verify_gaps(const Checkpoint& opened, const std::vector<FileRecord>& recorded,
                 const std::string& step, const RunOptions& options, VerifyResult& result);

}  // namespace hfshard
