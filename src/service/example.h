#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/family_info.h"

#include "hfshard/mappings.h"

namespace hfshard {

/// The family that is meant. Throws: usage (none is named), not_found with near names.
FamilyFile chosen_family(const FamilyChoice& choice);

/// The config that is used: `text` parsed, or the family's example where it is empty.
/// Throws: bad_input (malformed, or it belongs to another family).
Json example_config(const FamilyFile& family, const std::string& text, const std::string& name,
                    const std::vector<MappingFile>& own = {});

/// A catalog of the tensors that a checkpoint of this config has, in memory: as if it lay in one
/// file. Those that the rules of a scheme name; of the main one where it is empty.
Catalog example_catalog(const FamilyFile& family, const Json& config, DType dtype,
                        const std::map<std::string, std::string>& options = {},
                        std::string_view scheme = {});

/// Elements' bytes [8 * first_word, ...) of the tensor's stream: finite, both signs, magnitudes of
/// 2^-8 to 1, every bit of the mantissa random. Codes are any that are finite and below 2; the
/// exponents of u8 and f8_e8m0 scales are -2 to 1. `out` is filled as far as it goes.
void fill_random(std::uint64_t stream, std::uint64_t first_word, DType dtype,
                 std::span<std::byte> out, bool scale = false);

/// Names compared with runs of digits as numbers: `layers.2` before `layers.10`.
bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace hfshard
