#include "service/linked.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "run/commit/linked_files.h"
#include "service/step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string header_of(const std::string& file) {
  return open_source(StorePath(file), {})->catalog().files.front().header_sha256;
}

}  // namespace

std::string check_linked(const StorePath& place) {
  const std::string step = place.is_far() ? std::string() : step_directory(place.name());
  if (step.empty()) return {};
  std::vector<std::string> changed;
  for (const LinkedFile& link : linked_files(step)) {
    if (!link.is_there) continue;  // reading it is an error
    const bool known = !link.header_sha256.empty();
    if (known ? header_of(link.file) != link.header_sha256 : !link.fault.empty()) {
      throw Error(ErrorCode::corrupt,
                  known ? "the linked file's tensors lie elsewhere than when it was linked"
                        : link.fault + "; its tensors can lie elsewhere now")
          .in_file(link.file)
          .hint("run hfshard link again, or read the model's own files");
    }
    if (!link.fault.empty()) changed.push_back(link.file);
  }
  if (changed.empty()) return {};
  return fmt::format(
      "files were written to, or copied, since they were linked ({}); their tensors lie where they "
      "did, and their values are those of now",
      quoted_list(changed));
}

}  // namespace hfshard
