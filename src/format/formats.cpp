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
#include "format/null/null.h"
#include "format/orbax/orbax.h"
#include "format/safetensors/format.h"
#include "format/safetensors/hf_repo.h"
#include "format/safetensors/open.h"

#include "hfshard/error.h"

namespace hfshard {

std::span<const Format* const> all_formats() {
  static const std::array<const Format*, 4> kFormats = {
      &format::orbax::orbax_format(),
      &format::dcp::dcp_format(),
      &format::safetensors::safetensors_format(),
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
  throw Error(ErrorCode::usage, fmt::format("there is no format {}", quote(name)))
      .hint("known are " + join(target_names(), ", "));
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
  throw Error(ErrorCode::unsupported, "checkpoints of such places are not read")
      .in_file(location)
      .hint(scheme == "file" ? "write the path alone, without file://"
                             : "copy it here first; understood are directories, .safetensors files "
                               "and models of the hub");
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
    throw Error(
        ErrorCode::unsupported,
        fmt::format("a checkpoint of the format {} is no HuggingFace model", quote(other->name())))
        .in_file(location.text())
        .hint(
            "reshard lays it out for another mesh; convert --to safetensors goes back to the model "
            "that it was made of");
  }
  refuse_foreign(location);
  return format::safetensors::open_hf(location);
}

bool is_model_place(const StorePath& location) {
  return std::ranges::any_of(all_formats(), [&](const Format* format) {
    return format->plain() && format->recognise(location).has_value();
  });
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
                fmt::format("what lies beside a tree of the format {} has no place in one of the "
                            "format {}",
                            quote(format->name()), quote(written.name())))
        .in_file(location.text())
        .hint("leave out --items all");
  }
  return format->beside(location, choice);
}

std::vector<std::string> model_side_files(const StorePath& directory) {
  return format::safetensors::find_side_files(directory, directory.list());
}

Catalog open_catalog(const StorePath& location) { return open_source(location)->catalog(); }

std::optional<NameList> open_names(const StorePath& location) {
  return format::safetensors::open_hf_names(location);
}

}  // namespace hfshard
