#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/mapping.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace hfshard {

/// The flags that choose a mapping, as typed. One definition for every command that has them.
struct MappingFlags {
  std::string scheme = "maxtext";
  std::string layers = "stacked";
  std::vector<std::string> options;  ///< NAME=VALUE
  std::optional<std::uint64_t> vocab;
  std::vector<std::string> with;  ///< NAME,...
  std::optional<std::string> dtype;
  std::vector<std::string> casts;  ///< GLOB=DTYPE
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> files;  ///< --mapping FILE
};

/// Adds --layers alone, for commands that need no more.
void add_layers_flag(CLI::App& command, std::string& layers);
/// Adds --option, --with and --mapping alone: which parts of a model there are, by which mapping.
void add_part_flags(CLI::App& command, MappingFlags& flags);
/// Adds --scheme, --layers, --option, --with, --vocab, --dtype, --cast, --include and --exclude.
/// `flags` must outlive the parsing.
void add_mapping_flags(CLI::App& command, MappingFlags& flags);
/// The user's own families: those of --mapping, then those of the directory that the environment
/// names by HFSHARD_MAPPINGS. Throws: as read_mappings.
std::vector<MappingFile> own_mappings(const MappingFlags& flags);
/// Reads the files of own_mappings. Throws: usage (an option without `=`, or given twice).
MappingOptions mapping_options(const MappingFlags& flags);

}  // namespace hfshard
