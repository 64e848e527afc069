#include "service/recorded.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "catalog/manifest_head.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/options_json.h"
#include "service/step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kConfigName = "config.json";

}  // namespace

std::optional<Recorded> recorded_at(const StorePath& place) {
  const auto path = place.local_path();
  const std::string step = path ? step_directory(*path) : std::string();
  if (step.empty()) return std::nullopt;
  Recorded out;
  out.origin_path = join_path(step, kManifestName);
  out.origin = read_intact_manifest(out.origin_path);
  out.tree = out.origin.model;
  const auto files = out.origin.files;
  if (const std::string origin = join_path(step, kOriginName); exists(origin)) {
    out.origin_path = origin;
    out.origin = read_intact_manifest(origin);
  }
  // If a format has no steps, the model's files are among the checkpoint's.
  for (const std::string& beside : {step, join_path(parent_path(step), "hf")}) {
    if (out.model_files.empty() && exists(join_path(beside, kConfigName))) out.model_files = beside;
  }
  for (const FileRecord& file : out.model_files == step ? files.step : files.side) {
    if (file.path == kConfigName) out.config_sha256 = file.sha256;
  }
  return out;
}

std::optional<Recorded> recorded_below(const StorePath& place, const std::string& root) {
  return root.empty() ? recorded_at(place) : std::nullopt;
}

std::string recorded_config(const Recorded& recorded) {
  const StorePath path = StorePath(recorded.model_files) / kConfigName;
  std::string text = path.read();
  if (recorded.config_sha256.empty() || recorded.config_sha256 == sha256_hex(text)) return text;
  throw Error(ErrorCode::conflict,
              "config.json isn't the one that hfshard wrote for this checkpoint")
      .in_file(path.text())
      .hint(fmt::format("pass --config with the model's directory; --config {} takes this file",
                        shell_word(recorded.model_files)));
}

MappingOptions mapping_of(const Recorded& recorded) {
  return options_from_json(recorded.origin.identity.at("options")).mapping;
}

std::optional<MappingOptions> recorded_mapping(const StorePath& place) {
  const auto recorded = recorded_at(place);
  return recorded ? std::optional(mapping_of(*recorded)) : std::nullopt;
}

StorePath model_directory(const StorePath& place) {
  return place.is_directory() ? place : place.parent();
}

std::string recorded_dialect(const StorePath& place) {
  if (!place.local_path()) return {};
  const StorePath directory = model_directory(place);
  const ManifestHead head = manifest_head(directory);  // the rest can be long
  const Json* options = head.identity.is_object() ? head.identity.find("options") : nullptr;
  if (options == nullptr) return {};
  const PlanOptions made_with = options_from_json(*options);
  if (!format_of(made_with.target).plain()) return {};  // an index next to the files has no dialect
  if ((directory / kOriginName).exists()) {
    const auto mapping = recorded_mapping(directory);
    return mapping ? asked_dialect(*mapping) : std::string();
  }
  return asked_dialect(made_with.mapping);
}

}  // namespace hfshard
