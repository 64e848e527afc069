#include "service/step.h"

#include "bytes/files.h"
#include "format/formats.h"
#include "run/checking/output_manifest.h"

namespace hfshard {

std::string step_directory(const std::string& out) {
  const auto is_ours = [](const std::string& directory) {
    return exists(join_path(directory, kManifestName));
  };
  if (is_ours(out)) return out;
  if (is_ours(parent_path(out))) return parent_path(out);
  std::string highest;
  for (const Format* format : all_formats()) {
    const auto found = format->recognise(out);
    if (!found) continue;
    for (const Found::Step& step : found->steps) {  // by number
      if (is_ours(step.directory)) highest = step.directory;
    }
  }
  return highest;
}

}  // namespace hfshard
