#include "tool/mapping_flags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// One value each time it is given; without this CLI11 takes the positional arguments after it too.
void add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
              const std::string& type, const std::string& help) {
  command.add_option(name, values, help)->type_name(type)->allow_extra_args(false);
}

void set_option(MappingOptions& options, const std::string& name, const std::string& value) {
  if (options.options.try_emplace(name, value).second) return;
  throw Error(ErrorCode::usage, fmt::format("option {} is given twice", quote(name)));
}

}  // namespace

void add_layers_flag(CLI::App& command, std::string& layers) {
  command
      .add_option("--layers", layers, "one array for all layers, or one for each (default stacked)")
      ->type_name("stacked|separate")
      ->check(CLI::IsMember({"stacked", "separate"}).description(""));
}

void add_mapping_flags(CLI::App& command, MappingFlags& flags) {
  command
      .add_option("--scheme", flags.scheme,
                  "maxtext, or hf for unchanged names and shapes (default maxtext)")
      ->type_name("maxtext|hf")
      ->check(CLI::IsMember({"maxtext", "hf"}).description(""));
  add_layers_flag(command, flags.layers);
  add_list(command, "--option", flags.options, "NAME=VALUE",
           "an option of the family's rules; may be repeated (default none)");
  command
      .add_option("--vocab", flags.vocab,
                  "vocabulary rows of the target, padded with zeros or cut (default the source's)")
      ->type_name("N");
  add_list(command, "--include", flags.include, "GLOB",
           "only source tensors that match this glob; may be repeated (default all)");
  add_list(command, "--exclude", flags.exclude, "GLOB",
           "leave out source tensors that match this glob; may be repeated (default none)");
}

MappingOptions mapping_options(const MappingFlags& flags) {
  MappingOptions out;
  out.scheme = flags.scheme;
  out.stacked = flags.layers == "stacked" && flags.scheme != "hf";
  for (const std::string& option : flags.options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorCode::usage,
                  fmt::format("--option wants NAME=VALUE, not {}", quote(option)));
    }
    set_option(out, option.substr(0, equals), option.substr(equals + 1));
  }
  if (flags.vocab) set_option(out, "vocab", std::to_string(*flags.vocab));
  out.include = flags.include;
  out.exclude = flags.exclude;
  return out;
}

}  // namespace hfshard
