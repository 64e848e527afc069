#include "tool/mapping_flags.h"

#include <algorithm>
#include <optional>
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

Cast read_cast(const std::string& text) {
  const std::optional<Cast> cast = parse_cast(text);
  if (cast &&
      (cast->dtype == DType::bf16 || cast->dtype == DType::f16 || cast->dtype == DType::f32))
    return *cast;
  throw Error(ErrorCode::usage, fmt::format("--cast wants GLOB=DTYPE, not {}", quote(text)))
      .hint("the dtypes are bf16, f16 and f32; the glob is for leaf paths, as plan prints them");
}

}  // namespace

Option layers_option(std::string& layers) {
  return {.name = "--layers",
          .to = &layers,
          .value = "stacked|separate",
          .choices = {"stacked", "separate"},
          .group = Group::model,
          .help = "one array for all layers, or one for each"};
}

OptionTable part_table(MappingFlags& flags) {
  return {{.name = "--option",
           .to = &flags.options,
           .value = "NAME=VALUE",
           .group = Group::model,
           .help = "an option of the family's rules"},
          {.name = "--with",
           .to = &flags.with,
           .value = "NAME,...",
           .choices = {"mtp", "vision", "audio"},
           .open = true,
           .group = Group::model,
           .help = "take parts that a loader may not want too: mtp, vision, audio"},
          {.name = "--mapping",
           .to = &flags.files,
           .value = "FILE",
           .offer = Offer::file,
           .group = Group::model,
           .help = "a model family of your own, or a changed one in place of the built-in one",
           .standard = "none; HFSHARD_MAPPINGS names a directory of such files"}};
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

// One of these by its name.
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
      summary_option("--scheme", &scheme, list_schemes(), "whose names and shapes: ", ", ");
  out.standard = MappingOptions().scheme;
  return out;
}

Option family_scheme_option(std::optional<std::string>& scheme) {
  Option out = scheme_option(scheme);
  out.help = "whose names and shapes; of hf a dialect has rules";
  out.standard += ", or the only one that the family has";
  return out;
}

Option dialect_option(std::string& dialect) {
  return summary_option("--dialect", &dialect, list_dialects(),
                        "names and shapes of --scheme hf: ", ", or ");
}

std::vector<MappingFile> own_mappings(const MappingFlags& flags) {
  return read_mappings(flags.files, variable("HFSHARD_MAPPINGS").value_or(""));
}

namespace {

bool stacks(const std::string& scheme) {
  return std::ranges::any_of(list_schemes(), [&](const SchemeSummary& known) {
    return known.name == scheme && known.stacks;
  });
}

Option prefix_option(MappingFlags& flags) {
  return {.name = "--prefix",
          .to = &flags.prefix,
          .value = "TEXT",
          .group = Group::model,
          .help =
              "what names of --scheme hf begin with, such as model.; taken off those of a "
              "checkpoint of PyTorch that hfshard did not write",
          .standard = "nothing"};
}

OptionTable tensor_table(MappingFlags& flags) {
  return {{.name = "--num-layers",
           .to = &flags.num_layers,
           .value = "N",
           .least = 1,
           .group = Group::model,
           .help = "only the first N layers of the decoder: a small model to try things with",
           .standard = "all"},
          {.name = "--vocab",
           .to = &flags.vocab,
           .value = "N",
           .least = 1,
           .group = Group::model,
           .help = "vocabulary rows of the target, padded with zeros or cut",
           .standard = "the source's"},
          {.name = "--include",
           .to = &flags.include,
           .value = "GLOB",
           .group = Group::model,
           .help = "only source tensors that match this glob, or with *.safetensors only such "
                   "files",
           .standard = "all"},
          {.name = "--exclude",
           .to = &flags.exclude,
           .value = "GLOB",
           .group = Group::model,
           .help = "leave out source tensors that match this glob, or files"}};
}

OptionTable value_table(MappingFlags& flags) {
  return {{.name = "--dtype",
           .to = &flags.dtype,
           .value = "keep|bf16|f16|f32",
           .choices = {"keep", "bf16", "f16", "f32"},
           .group = Group::values,
           .help = "dtype of all float arrays, except those that their rule keeps wider; keep "
                   "takes the dtype that SOURCE stores and refuses quantized tensors",
           .standard = "as stored, bf16 where it is quantized"},
          {.name = "--cast",
           .to = &flags.casts,
           .value = "GLOB=DTYPE",
           .group = Group::values,
           .help = "dtype of the leaves whose path matches, whatever their rule says; the last "
                   "match wins"}};
}

}  // namespace

OptionTable mapping_table(MappingFlags& flags) {
  return joined({{scheme_option(flags.scheme), dialect_option(flags.dialect), prefix_option(flags),
                  layers_option(flags.layers)},
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
  out.num_layers = flags.num_layers;
  if (flags.vocab) set_option(out, "vocab", std::to_string(*flags.vocab));
  const bool as_stored = out.scheme == "hf" && out.dialect == MappingOptions().dialect;
  if (!as_stored) {
    out.files = own_mappings(flags);
  } else if (!flags.files.empty()) {
    throw Error(ErrorCode::usage, "--scheme hf keeps names and shapes, so it takes no --mapping");
  }
  out.prefix = flags.prefix;
  out.include = flags.include;
  out.exclude = flags.exclude;
  return out;
}

}  // namespace hfshard
