#include "service/linked.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "format/formats.h"
#include "service/step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns whether the tensors of a file lie where they did when it was linked. Throws: as
// open_source.
bool has_same_header(const LinkedFile& link) {
  return open_source(StorePath(link.file), {})->catalog().files.front().header_sha256 ==
         link.header_sha256;
}

constexpr const char* kMoved = "the linked file's tensors lie elsewhere than when it was linked";

}  // namespace

std::vector<LinkedFile> changed_links(const std::string& step) {
  std::vector<LinkedFile> out;
  for (LinkedFile& link : linked_files(step)) {
    if (link.is_there && !link.header_sha256.empty()) {
      try {
        if (!has_same_header(link)) link.fault = kMoved;
      } catch (const Error& error) {
        link.fault = error.sentence();
      }
    }
    if (!link.fault.empty()) out.push_back(std::move(link));
  }
  return out;
}

std::string check_linked(const StorePath& place) {
  const std::string step = step_of(place);
  if (step.empty()) return {};
  std::vector<std::string> changed;
  for (const LinkedFile& link : linked_files(step)) {
    if (!link.is_there) continue;  // reading it is an error
    const bool known = !link.header_sha256.empty();
    if (known ? !has_same_header(link) : !link.fault.empty()) {
      throw Error(ErrorCode::corrupt,
                  known ? kMoved : link.fault + "; its tensors can lie elsewhere now")
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

std::unique_ptr<Checkpoint> open_linked(const StorePath& place,
                                        const std::function<std::unique_ptr<Checkpoint>()>& open) {
  try {
    return open();
  } catch (const Error& error) {
    const std::string step = step_of(place);
    if (step.empty()) throw;
    throw explained(error, step);
  }
}

}  // namespace hfshard
