#include "service/enclosing.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the published steps in a directory, if it is a root. Torch's step directories, each a
// checkpoint alone, don't count.
std::vector<std::string> steps_in(const std::string& directory) {
  std::vector<std::string> out;
  const auto found = is_directory(directory) ? recognise(StorePath(directory)) : std::nullopt;
  if (!found || !found->format->writes() || !found->format->layout().has_steps) return out;
  for (const Found::Step& step : found->found.steps)
    if (step.published) out.push_back(entry_name(step.directory));
  return out;
}

std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Throws: conflict, io.
void look_around(const Plan& plan, const std::string& out) {
  if (exists(out) && !(is_directory(out) && list_directory(out).empty())) return;
  const std::string path = std::filesystem::absolute(out).lexically_normal().string();
  const std::string root = parent_path(path);
  const std::string name = entry_name(path);
  const std::string_view prefix = without_number(name);
  const std::vector<std::string> beside = steps_in(root);
  if (prefix.size() < name.size() && std::ranges::any_of(beside, [&](const std::string& step) {
        return without_number(step) == prefix;
      })) {
    const std::string pass = shell_word(parent_path(out));
    throw Error(ErrorCode::conflict, "the output would be a step of the checkpoint around it")
        .in_file(out)
        .hint(plan.files().has_steps ? fmt::format("pass {}, and the step with --output-step {}",
                                                   pass, name.substr(prefix.size()))
                                     : "pass an output outside of " + pass);
  }
  for (std::string at = root; parent_path(at) != at; at = parent_path(at)) {
    const std::vector<std::string> steps = steps_in(parent_path(at));
    if (std::ranges::find(steps, entry_name(at)) == steps.end()) continue;
    throw Error(ErrorCode::conflict, "the output is inside a step of a checkpoint")
        .in_file(out)
        .hint("pass an output outside of " + shell_word(at));
  }
}

}  // namespace

void refuse_in_checkpoint(const Plan& plan, const std::string& out) {
  if (out.empty()) return;
  try {
    look_around(plan, out);
  } catch (const Error& error) {  // a run says why it can't write there
    if (error.code() == ErrorCode::conflict) throw;
  } catch (const std::filesystem::filesystem_error&) {  // the same
    return;
  }
}

}  // namespace hfshard
