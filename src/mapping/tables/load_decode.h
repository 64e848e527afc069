#pragma once

#include "mapping/tables/decode_rule.h"
#include "mapping/tables/load_reader.h"

namespace hfshard {

/// Reads an element of a `decode`. Throws: bad_input.
DecodeRule read_decode(const JsonAt& at);

}  // namespace hfshard
