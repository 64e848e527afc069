#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {

inline const std::string kCommit(40, 'c');

// Answers questions about a model with files of these sizes. Empty ones can be downloaded, because
// they have no bytes to ask for.
inline void say_files(const OneAnswer::Say& say,
                      const std::vector<std::pair<std::string, std::uint64_t>>& files) {
  if (say.request().find("/tree/") == std::string::npos) {
    say(json_answer(fmt::format(R"({{"id": "org/name", "sha": "{}"}})", kCommit)));
    return;
  }
  std::vector<std::string> entries;
  for (const auto& [path, size] : files) {
    entries.push_back(fmt::format(R"({{"type": "file", "path": "{}", "size": {}, "oid": "{}"}})",
                                  path, size, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"));
  }
  say(json_answer("[" + join(entries, ",") + "]"));
}

}  // namespace hfshard
