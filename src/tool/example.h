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

#include "hfshard/convert.h"

namespace hfshard {

/// What `mappings example` writes.
struct ExampleOptions {
  std::vector<MappingFile> own;  ///< families before the built-in ones
  std::string family;
  std::string out;
  std::string config_text;  ///< config.json verbatim; empty: the family's example
  std::uint64_t seed = 0;
  bool sparse = false;        ///< full sizes, no data: takes no disk, reads as zeros
  DType dtype = DType::bf16;  ///< of what is not quantised
  std::map<std::string, std::string> options;  ///< --with and --option: which parts there are
  std::uint64_t shard_bytes = std::uint64_t{4}
                              << 30;  ///< largest data of a file with several tensors
};

struct ExampleResult {
  std::uint64_t tensors = 0;
  std::uint64_t files = 0;       ///< safetensors files
  std::uint64_t data_bytes = 0;  ///< of tensors
  std::uint64_t file_bytes = 0;  ///< of safetensors files
};

/// The config that is used: `text` parsed, or the family's example where it is empty.
/// Throws: bad_input (malformed, or it belongs to another family).
Json example_config(const FamilyFile& family, const std::string& text, const std::string& name,
                    const std::vector<MappingFile>& own = {});

/// A catalog of the tensors that a checkpoint of this config has, in memory: as if it lay in one
/// file.
Catalog example_catalog(const FamilyFile& family, const Json& config, DType dtype,
                        const std::map<std::string, std::string>& options = {});

/// Writes a checkpoint as HuggingFace stores it: config.json, safetensors files (with an index when
/// there are several), tokenizer and generation config. Tensors lie in natural order (layer 2
/// before layer 10); bytes depend on seed, name, shape and dtype only. Memory: names, and one
/// buffer. Throws: conflict (OUT exists and is not an empty directory), limit (disk), bad_input,
/// not_found, io.
ExampleResult write_example(const ExampleOptions& options, Reporter& reporter);

/// Elements' bytes [8 * first_word, ...) of the tensor's stream: finite, both signs, magnitudes of
/// 2^-8 to 1, every bit of the mantissa random. Codes are any that are finite and below 2; the
/// exponents of u8 and f8_e8m0 scales are -2 to 1. `out` is filled as far as it goes.
void fill_random(std::uint64_t stream, std::uint64_t first_word, DType dtype,
                 std::span<std::byte> out, bool scale = false);

/// Names compared with runs of digits as numbers: `layers.2` before `layers.10`.
bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace hfshard
