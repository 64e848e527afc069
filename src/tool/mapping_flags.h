#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tool/options.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The flags that choose a mapping, as typed; one definition for all commands.
struct MappingFlags {
  std::optional<std::string> scheme;
  std::string dialect = MappingOptions().dialect;
  std::string layers = "stacked";
  std::vector<std::string> options;  ///< NAME=VALUE
  std::optional<std::uint64_t> num_layers;
  std::optional<std::string> maxtext;
  std::optional<std::uint64_t> vocab;
  std::vector<std::string> with;  ///< NAME,...
  std::optional<std::string> dtype;
  std::vector<std::string> casts;  ///< GLOB=DTYPE
  std::string prefix;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> drop;
  bool untie = false;
  std::vector<std::string> files;  ///< --mapping FILE
};

// The options of the tables write to `flags`, which must outlive the parsing.

/// Returns --scheme with all schemes.
Option scheme_option(std::optional<std::string>& scheme);
/// Returns --scheme for a family's rules, without "hf" unless a dialect has rules.
Option family_scheme_option(std::optional<std::string>& scheme);
/// Returns --dialect.
Option dialect_option(std::string& dialect);
/// Returns --layers.
Option layers_option(std::string& layers);
/// Returns --option, --with and --mapping, which select parts of a model and the mapping.
OptionTable part_table(MappingFlags& flags);
/// Returns all options of a mapping.
OptionTable mapping_table(MappingFlags& flags);
/// Returns --config FILE, the config.json for a family's shapes.
Option config_option(std::string& file, std::string help, std::string standard);
/// Reads the user's own families: the files of --mapping, then the directory HFSHARD_MAPPINGS.
/// Throws: as read_mappings.
std::vector<MappingFile> own_mappings(const MappingFlags& flags);
/// Returns the mapping options; reads the files of own_mappings. `scheme`: the default. Throws:
/// usage (an option without `=`, or given twice).
MappingOptions mapping_options(const MappingFlags& flags,
                               const std::string& scheme = MappingOptions().scheme);

}  // namespace hfshard
