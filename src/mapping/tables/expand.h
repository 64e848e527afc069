#pragma once

#include <string_view>

#include "base/json.h"
#include "mapping/tables/family.h"
#include "mapping/tables/load_reader.h"

namespace hfshard {

/// A family with everything that it uses inserted. That is the parts of mappings/common.json,
/// tensors and modifiers that rules name, the defaults of its schemes, and full sizes. The result
/// is a valid family file without `use` and `tensors`.
struct ExpandedFamily {
  Json json;
  Origins origins;  ///< the places of moved values
};

/// Expands a family. Throws: bad_input with the JSON pointer (unknown part, tensor, modifier or
/// key, a wrong type).
ExpandedFamily expand_family(const FamilyFile& file);

/// Returns mappings/common.json, parsed once.
const Json& common_mappings();

}  // namespace hfshard
