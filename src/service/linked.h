#pragma once

#include <string>

#include "bytes/store/store.h"

namespace hfshard {

/// Checks the linked files of a checkpoint that is read. Their headers must be those that were
/// linked, so that the index finds each tensor. Returns a warning about files with another time, or
/// an empty text. Throws: corrupt (another header), as open_source.
std::string check_linked(const StorePath& place);

}  // namespace hfshard
