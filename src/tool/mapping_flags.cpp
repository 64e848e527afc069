#include "tool/mapping_flags.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/environment.h"

#include "hfshard/error.h"
#include "hfshard/mappings.h"

namespace hfshard {
namespace {

void set_option(MappingOptions& options, const std::string& name, const std::string& value) {
  if (options.options.try_emplace(name, value).second) return;
  throw Error(ErrorCode::usage, fmt::format("option {} is given twice", quote(name)));
}

// The release is part of the options, even if it is the newest.
void set_release(const MappingFlags& flags, MappingOptions& out) {
  const std::vector<std::string> releases = list_releases(out.scheme);
  if (releases.empty() || (!flags.maxtext && out.options.contains(out.scheme))) return;
  set_option(out, out.scheme,
             flags.maxtext ? find_release(out.scheme, *flags.maxtext) : releases.front());
}

Cast read_cast(const std::string& text) {
  const std::optional<Cast> cast = parse_cast(text);
  if (cast &&
      (cast->dtype == DType::bf16 || cast->dtype == DType::f16 || cast->dtype == DType::f32))
    return *cast;
  const std::size_t sign = text.rfind('=');
  const std::string said =
      sign == std::string::npos
          ? fmt::format("--cast needs GLOB=DTYPE, not {}", quote(text))
          : fmt::format("--cast doesn't know the dtype {}", quote(text.substr(sign + 1)));
  throw Error(ErrorCode::usage, said)
      .hint("DTYPE is bf16, f16 or f32; GLOB matches leaf paths as hfshard plan prints them");
}

}  // namespace

Option layers_option(std::string& layers) {
  return {.name = "--layers",
          .to = &layers,
          .value = "stacked|separate",
          .choices = {"stacked", "separate"},
          .group = Group::model,
          .help = "one array for all layers, or one array for each layer"};
}

OptionTable part_table(MappingFlags& flags) {
  return {{.name = "--option",
           .to = &flags.options,
           .value = "NAME=VALUE",
           .group = Group::model,
           .help = "option of the model family; hfshard mappings show FAMILY lists them"},
          {.name = "--with",
           .to = &flags.with,
           .value = "NAME,...",
           .choices = {"mtp", "vision", "audio"},
           .open = true,
           .group = Group::model,
           .help = "also convert optional parts: mtp, vision, audio"},
          {.name = "--mapping",
           .to = &flags.files,
           .value = "FILE",
           .offer = Offer::file,
           .group = Group::model,
           .help = "mapping file that adds a model family or replaces a built-in one",
           .standard = "the files in the directory HFSHARD_MAPPINGS, if it is set"}};
}

Option config_option(std::string& file, std::string help, std::string standard) {
  return {.name = "--config",
          .to = &file,
          .value = "FILE",
          .offer = Offer::file,
          .group = Group::model,
          .help = std::move(help),
          .standard = std::move(standard)};
}

namespace {

// Returns the option with this name.
Option summary_option(std::string name, decltype(Option::to) to,
                      const std::vector<SchemeSummary>& all, const std::string& what,
                      std::string_view between) {
  std::vector<std::string> names;
  std::vector<std::string> lines;
  for (const SchemeSummary& known : all) {
    names.push_back(known.name);
    lines.push_back(known.about);
  }
  return {.name = std::move(name),
          .to = to,
          .value = join(names, "|"),
          .choices = names,
          .group = Group::model,
          .help = what + join(lines, between),
          .standard = names.front()};
}

}  // namespace

Option scheme_option(std::optional<std::string>& scheme) {
  Option out =
      summary_option("--scheme", &scheme, list_schemes(), "tensor names and shapes: ", ", ");
  out.standard = MappingOptions().scheme;
  return out;
}

Option family_scheme_option(std::optional<std::string>& scheme) {
  Option out = scheme_option(scheme);
  out.help = "tensor names and shapes; for hf, --dialect picks the rules";
  out.standard += ", or the only scheme of the family";
  return out;
}

Option dialect_option(std::string& dialect) {
  return summary_option("--dialect", &dialect, list_dialects(),
                        "tensor names and shapes of --scheme hf: ", ", or ");
}

std::vector<MappingFile> own_mappings(const MappingFlags& flags) {
  const std::string directory = variable("HFSHARD_MAPPINGS").value_or("");
  std::error_code unknown;
  if (!directory.empty() && !std::filesystem::is_directory(directory, unknown)) {
    throw Error(ErrorCode::not_found, "the variable HFSHARD_MAPPINGS doesn't name a directory")
        .in_file(directory)
        .hint("unset it, or pass --mapping FILE");
  }
  return read_mappings(flags.files, directory);
}

namespace {

bool stacks(const std::string& scheme) {
  return std::ranges::any_of(list_schemes(), [&](const SchemeSummary& known) {
    return known.name == scheme && known.stacks;
  });
}

Option release_option(MappingFlags& flags) {
  const std::vector<std::string> all = list_releases("maxtext");
  return {.name = "--maxtext",
          .to = &flags.maxtext,
          .value = "RELEASE",
          .choices = all,
          .open = true,
          .group = Group::model,
          .help = "MaxText release that loads the output: " + join(all, ", "),
          .standard = all.front()};
}

Option prefix_option(MappingFlags& flags) {
  return {
      .name = "--prefix",
      .to = &flags.prefix,
      .value = "TEXT",
      .group = Group::model,
      .help =
          "with --scheme hf, put TEXT (such as model.) before every tensor name; with other "
          "schemes, and for a PyTorch checkpoint that hfshard didn't write, remove TEXT from the "
          "source's tensor names",
      .standard = "nothing"};
}

OptionTable tensor_table(MappingFlags& flags) {
  return {
      {.name = "--num-layers",
       .to = &flags.num_layers,
       .value = "N",
       .least = 1,
       .group = Group::model,
       .help = "convert only the first N decoder layers, for a quick try",
       .standard = "all"},
      {.name = "--vocab",
       .to = &flags.vocab,
       .value = "N",
       .least = 1,
       .group = Group::model,
       .help = "rows of the vocabulary; hfshard pads with zeros or cuts; for an export, "
               "the rows that SOURCE has",
       .standard = "the source's"},
      {.name = "--include",
       .to = &flags.include,
       .value = "GLOB",
       .group = Group::model,
       .help =
           "convert only source tensors that match GLOB; a GLOB that ends in .safetensors or .bin "
           "selects files",
       .standard = "all"},
      {.name = "--exclude",
       .to = &flags.exclude,
       .value = "GLOB",
       .group = Group::model,
       .help = "leave out source tensors, or files, that match GLOB"},
      {.name = "--drop",
       .to = &flags.drop,
       .value = "GLOB",
       .group = Group::model,
       .help = "accept that the values of these source tensors are lost if the target has no "
               "place for them"},
      {.name = "--untie",
       .to = &flags.untie,
       .group = Group::model,
       .help = "write the output head as its own tensor, and tie_word_embeddings: false into "
               "config.json"}};
}

OptionTable value_table(MappingFlags& flags) {
  return {
      {.name = "--dtype",
       .to = &flags.dtype,
       .value = "keep|bf16|f16|f32",
       .choices = {"keep", "bf16", "f16", "f32"},
       .group = Group::values,
       .help =
           "dtype of float arrays, except those that the family keeps wider; keep: the dtype that "
           "SOURCE stores, for quantized tensors only if the loader has a place for their "
           "scales",
       .standard = "as stored; bf16 for quantized tensors"},
      {.name = "--cast",
       .to = &flags.casts,
       .value = "GLOB=DTYPE",
       .group = Group::values,
       .help = "dtype of the float arrays whose path matches GLOB; the last match wins"}};
}

}  // namespace

OptionTable mapping_table(MappingFlags& flags) {
  return joined({{scheme_option(flags.scheme), release_option(flags), dialect_option(flags.dialect),
                  prefix_option(flags), layers_option(flags.layers)},
                 part_table(flags),
                 tensor_table(flags),
                 value_table(flags)});
}

MappingOptions mapping_options(const MappingFlags& flags, const std::string& scheme) {
  MappingOptions out;
  out.scheme = flags.scheme.value_or(scheme);
  out.dialect = flags.dialect;
  out.stacked = flags.layers == "stacked" && stacks(out.scheme);
  for (const std::string& option : flags.options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorCode::usage,
                  fmt::format("--option needs NAME=VALUE, not {}", quote(option)));
    }
    set_option(out, option.substr(0, equals), option.substr(equals + 1));
  }
  for (const std::string& list : flags.with) {
    for (const std::string& name : split(list, ',')) {
      if (name.empty())
        throw Error(ErrorCode::usage, "--with has an empty name; it takes mtp, vision or audio");
      set_option(out, name, "true");
    }
  }
  for (const std::string& cast : flags.casts) out.casts.push_back(read_cast(cast));
  out.keep_dtype = flags.dtype == "keep";
  if (flags.dtype) out.dtype = dtype_from_string(*flags.dtype);  // nothing for "keep"
  out.num_layers = flags.num_layers;
  set_release(flags, out);
  if (flags.vocab) set_option(out, "vocab", std::to_string(*flags.vocab));
  const bool as_stored = out.scheme == "hf" && out.dialect == MappingOptions().dialect;
  if (as_stored && !flags.files.empty())
    throw Error(ErrorCode::usage, "--scheme hf keeps names and shapes, so it can't use --mapping");
  out.files = own_mappings(flags);  // they also tell whether a model is complete
  out.prefix = flags.prefix;
  out.include = flags.include;
  out.exclude = flags.exclude;
  out.drop = flags.drop;
  out.untie = flags.untie;
  return out;
}

}  // namespace hfshard
