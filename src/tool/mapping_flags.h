#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tool/options.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The flags that choose a mapping, as typed. One definition for every command that has them.
struct MappingFlags {
  std::optional<std::string> scheme;
  std::string dialect = MappingOptions().dialect;
  std::string layers = "stacked";
  std::vector<std::string> options;  ///< NAME=VALUE
  std::optional<std::uint64_t> num_layers;
  std::optional<std::uint64_t> vocab;
  std::vector<std::string> with;  ///< NAME,...
  std::optional<std::string> dtype;
  std::vector<std::string> casts;  ///< GLOB=DTYPE
  std::string prefix;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> files;  ///< --mapping FILE
};

// The tables' options write to `flags`, which must outlive the parsing.

/// --scheme alone, with all the schemes that there are.
Option scheme_option(std::optional<std::string>& scheme);
/// The same for the rules of a family, of which "hf" has none but in dialects.
Option family_scheme_option(std::optional<std::string>& scheme);
/// --dialect alone.
Option dialect_option(std::string& dialect);
/// --layers alone, for commands that need no more.
Option layers_option(std::string& layers);
/// --option, --with and --mapping alone: which parts of a model there are, by which mapping.
OptionTable part_table(MappingFlags& flags);
/// All of them.
OptionTable mapping_table(MappingFlags& flags);
/// `config.json` for the shapes of a family.
Option config_option(std::string& file, std::string help, std::string standard);
/// The user's own families: those of --mapping, then those of the directory that the environment
/// names by HFSHARD_MAPPINGS. Throws: as read_mappings.
std::vector<MappingFile> own_mappings(const MappingFlags& flags);
/// Reads the files of own_mappings. `scheme`: unless one was given. Throws: usage (an option
/// without
/// `=`, or given twice).
MappingOptions mapping_options(const MappingFlags& flags,
                               const std::string& scheme = MappingOptions().scheme);

}  // namespace hfshard
