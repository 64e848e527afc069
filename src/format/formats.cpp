#include "format/formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "format/dcp/dcp.h"
#include "format/foreign.h"
#include "format/hf_open.h"
#include "format/hf_repo.h"
#include "format/null/null.h"
#include "format/orbax/orbax.h"
#include "format/safetensors/format.h"
#include "format/safetensors/open.h"
#include "format/torch/torch.h"
#include "format/weight_files.h"

#include "hfshard/error.h"

namespace hfshard {

std::span<const Format* const> all_formats() {
  // Safetensors come before torch, as in transformers: a directory can have both.
  static const std::array<const Format*, 5> kFormats = {
      &format::orbax::orbax_format(),
      &format::dcp::dcp_format(),
      &format::safetensors::safetensors_format(),
      &format::torch::torch_format(),
      &format::null::null_format(),
  };
  return kFormats;
}

const Format& default_target() {
  const auto formats = all_formats();
  const auto found = std::ranges::find_if(
      formats, [](const Format* format) { return format->writes() && !format->discards(); });
  HFSHARD_CHECK(found != formats.end());
  return **found;
}

const Format& format_of(std::string_view name) {
  if (name.empty()) return default_target();
  for (const Format* format : all_formats()) {
    if (format->name() == name) return *format;
  }
  throw Error(ErrorCode::usage, fmt::format("hfshard has no format {}", quote(name)))
      .hint("pass one of " + join(target_names(), ", "));
}

std::vector<std::string> target_names() {
  std::vector<std::string> out;
  for (const Format* format : all_formats()) {
    if (format->writes()) out.emplace_back(format->name());
  }
  return out;
}

namespace {

void refuse_url(const std::string& location) {
  const std::string_view scheme = url_scheme(location);
  if (scheme.empty()) return;
  if (scheme == "file") {
    throw Error(ErrorCode::unsupported, "reading from file:// isn't supported")
        .in_file(location)
        .hint("pass only the path: " + location.substr(scheme.size() + 3));
  }
  std::string copy = "copy it to a local directory first, and pass the copy";
  if (scheme == "gs")
    copy = fmt::format("copy it first: gcloud storage cp -r {} DIRECTORY", location);
  if (scheme == "s3")
    copy = fmt::format("copy it first: aws s3 cp --recursive {} DIRECTORY", location);
  throw Error(ErrorCode::unsupported,
              fmt::format("reading from {}:// isn't supported yet", printable(scheme)))
      .in_file(location)
      .hint(copy);
}

}  // namespace

std::optional<Recognised> recognise(const StorePath& path) {
  for (const Format* format : all_formats()) {
    if (auto found = format->recognise(path)) return Recognised{format, std::move(*found)};
  }
  return std::nullopt;
}

std::unique_ptr<Checkpoint> open_checkpoint(const StorePath& path, const Choice& choice) {
  refuse_url(path.name());
  const auto recognised = recognise(path);
  if (recognised) return recognised->format->open_one(path, choice);
  refuse_foreign(path);
  return format::safetensors::open_hf(path);
}

std::unique_ptr<Checkpoint> open_source(const StorePath& location, const Choice& choice) {
  refuse_url(location.name());
  const Format* other = nullptr;
  for (const Format* format : all_formats()) {
    if (!format->recognise(location)) continue;
    if (format->plain()) return format->open_one(location, choice);
    if (other == nullptr) other = format;
  }
  if (other != nullptr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("a checkpoint in format {} isn't a Hugging Face model", other->name()))
        .in_file(location.text())
        .hint(
            "run hfshard reshard for another mesh, or convert --to safetensors to get the Hugging "
            "Face model");
  }
  refuse_foreign(location);
  return format::safetensors::open_hf(location);
}

bool is_model_place(const StorePath& location) {
  return std::ranges::any_of(all_formats(), [&](const Format* format) {
    return format->plain() && format->recognise(location).has_value();
  });
}

bool takes_root(const StorePath& location) {
  const auto reads = std::ranges::find_if(all_formats(), [&](const Format* format) {
    return format->plain() && format->recognise(location).has_value();
  });
  return reads != all_formats().end() && (*reads)->takes_root();
}

const Format* tree_format(const StorePath& location) {
  refuse_url(location.name());
  for (const Format* format : all_formats()) {
    if (!format->plain() && format->recognise(location)) return format;
  }
  return nullptr;
}

std::unique_ptr<Checkpoint> open_tree(const StorePath& location, const Choice& choice) {
  const Format* format = tree_format(location);
  return format == nullptr ? nullptr : format->open_one(location, choice);
}

Beside beside_tree(const StorePath& location, const Choice& choice, std::string_view target) {
  const Format* format = tree_format(location);
  HFSHARD_CHECK(format != nullptr);
  if (const Format& written = format_of(target); &written != format) {
    throw Error(ErrorCode::usage,
                fmt::format("format {1} has no place for the other items of a {0} step",
                            quote(format->name()), quote(written.name())))
        .in_file(location.text())
        .hint("leave out --items all");
  }
  return format->beside(location, choice);
}

bool describes_codes(std::string_view name) { return format::is_method_file(name); }

std::vector<std::string> model_side_files(const StorePath& directory) {
  return format::find_side_files(directory, directory.list());
}

Catalog open_catalog(const StorePath& location) { return open_source(location)->catalog(); }

std::optional<NameList> open_names(const StorePath& location) {
  for (const format::WeightFiles* kind : {&format::kSafetensorsFiles, &format::kTorchFiles}) {
    if (auto names = format::open_hf_names(location, *kind)) return names;
  }
  return std::nullopt;
}

std::string_view foreign_export(const StorePath& location) {
  return is_megatron_tree(location) ? megatron_hint() : std::string_view();
}

}  // namespace hfshard
