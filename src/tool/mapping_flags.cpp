#include "tool/mapping_flags.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "tool/values.h"

#include "hfshard/error.h"
#include "hfshard/mappings.h"

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

Cast read_cast(const std::string& text) {
  const std::optional<Cast> cast = parse_cast(text);
  if (cast &&
      (cast->dtype == DType::bf16 || cast->dtype == DType::f16 || cast->dtype == DType::f32))
    return *cast;
  throw Error(ErrorCode::usage, fmt::format("--cast wants GLOB=DTYPE, not {}", quote(text)))
      .hint("the dtypes are bf16, f16 and f32; the glob is for leaf paths, as plan prints them");
}

}  // namespace

void add_layers_flag(CLI::App& command, std::string& layers) {
  command
      .add_option("--layers", layers, "one array for all layers, or one for each (default stacked)")
      ->type_name("stacked|separate")
      ->check(choice("--layers", {"stacked", "separate"}));
}

void add_part_flags(CLI::App& command, MappingFlags& flags) {
  add_list(command, "--option", flags.options, "NAME=VALUE",
           "an option of the family's rules; may be repeated (default none)");
  add_list(command, "--with", flags.with, "NAME,...",
           "take parts that a loader may not want too: mtp, vision, audio (default none)");
  add_list(command, "--mapping", flags.files, "FILE",
           "a model family of your own, or a changed one in place of the built-in one; may be "
           "repeated (default none; HFSHARD_MAPPINGS names a directory of such files)");
}

std::vector<MappingFile> own_mappings(const MappingFlags& flags) {
  const char* directory = std::getenv("HFSHARD_MAPPINGS");  // NOLINT(concurrency-mt-unsafe)
  return read_mappings(flags.files, directory == nullptr ? "" : directory);
}

void add_mapping_flags(CLI::App& command, MappingFlags& flags) {
  command
      .add_option("--scheme", flags.scheme,
                  "maxtext, or hf for unchanged names and shapes (default maxtext)")
      ->type_name("maxtext|hf")
      ->check(choice("--scheme", {"maxtext", "hf"}));
  add_layers_flag(command, flags.layers);
  add_part_flags(command, flags);
  command
      .add_option("--vocab", flags.vocab,
                  "vocabulary rows of the target, padded with zeros or cut (default the source's)")
      ->type_name("N")
      ->check(whole("--vocab", 1));
  command
      .add_option("--dtype", flags.dtype,
                  "dtype of all float leaves but those that their rule keeps wider; keep refuses "
                  "quantised tensors (default as stored, bf16 where it is quantised)")
      ->type_name("keep|bf16|f16|f32")
      ->check(choice("--dtype", {"keep", "bf16", "f16", "f32"}));
  add_list(command, "--cast", flags.casts, "GLOB=DTYPE",
           "dtype of the leaves whose path matches, whatever their rule says; the last match wins; "
           "may be repeated (default none)");
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
  for (const std::string& list : flags.with) {
    for (const std::string& name : split(list, ',')) {
      if (name.empty()) throw Error(ErrorCode::usage, "--with has an empty name");
      set_option(out, name, "true");
    }
  }
  for (const std::string& cast : flags.casts) out.casts.push_back(read_cast(cast));
  out.keep_dtype = flags.dtype == "keep";
  if (flags.dtype && !out.keep_dtype) out.dtype = dtype_from_string(*flags.dtype);
  if (flags.vocab) set_option(out, "vocab", std::to_string(*flags.vocab));
  if (flags.scheme != "hf") {
    out.files = own_mappings(flags);
  } else if (!flags.files.empty()) {
    throw Error(ErrorCode::usage, "--scheme hf keeps names and shapes, so it takes no --mapping");
  }
  out.include = flags.include;
  out.exclude = flags.exclude;
  return out;
}

}  // namespace hfshard
