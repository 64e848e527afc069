#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/resolve/family_info.h"

#include "hfshard/mappings.h"

namespace hfshard {

/// Returns the selected family. Throws: usage (no family is named), not_found with similar names.
FamilyFile chosen_family(const FamilyChoice& choice);

/// Returns the config: `text` parsed, or the family's example if it is empty. Throws: bad_input
/// (malformed, or of another family).
Json example_config(const FamilyFile& family, const std::string& text, const std::string& name,
                    const std::vector<MappingFile>& own = {});

/// Returns a catalog of the tensors that a checkpoint of this config has, as if in one file. The
/// rules of `scheme` (empty: the main one) name them.
Catalog example_catalog(const FamilyFile& family, const Json& config, DType dtype,
                        const std::map<std::string, std::string>& options = {},
                        std::string_view scheme = {});

/// Fills `out` with the bytes of the tensor's stream from element byte 8 * first_word on. Values
/// are finite, with both signs, magnitudes of 2^-8 to 1 and random mantissas. Codes are finite and
/// below 2; exponents of u8 and f8_e8m0 scales are -2 to 1.
void fill_random(std::uint64_t stream, std::uint64_t first_word, DType dtype,
                 std::span<std::byte> out, bool scale = false);

/// Compares names with runs of digits as numbers: `layers.2` precedes `layers.10`.
bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace hfshard
