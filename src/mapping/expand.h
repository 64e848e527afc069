#pragma once

#include <string_view>

#include "base/json.h"
#include "mapping/family.h"
#include "mapping/load_reader.h"

namespace hfshard {

/// A family with everything that it uses put in its place: the parts of mappings/common.json, the
/// tensors that rules name, the modifiers that have names, the defaults of its schemes, its sizes
/// in full. It is a family file again, without `use` and `tensors`.
struct ExpandedFamily {
  Json json;
  Origins origins;  ///< where what has moved stands
};

/// Throws: bad_input with the JSON pointer (unknown part, tensor, modifier or key, a wrong type).
ExpandedFamily expand_family(const FamilyFile& file);

/// mappings/common.json, parsed once.
const Json& common_mappings();

}  // namespace hfshard
