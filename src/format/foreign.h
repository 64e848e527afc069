#pragma once

#include "bytes/store.h"

namespace hfshard {

/// Refuses a checkpoint of a kind that no format of this program reads, by the name of that kind:
/// by what a directory holds, or how a file begins. Of what it does not know it says nothing.
/// Throws: unsupported, io.
void refuse_foreign(const StorePath& path);

}  // namespace hfshard
