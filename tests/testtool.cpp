// hfshard_testtool: the product with sizes that users cannot set, so that tiny fixtures have many
// chunks, tiles, files and journal records. Same command line, and anywhere in it one `--limits
// name=value,...` (fields of plan/limits.h).

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "plan/limits.h"
#include "tool/tool.h"

namespace {

bool set_limits(hfshard::Limits& limits, std::string_view text) {
  using L = hfshard::Limits;
  const std::map<std::string, std::uint64_t L::*> fields = {
      {"floor_bytes", &L::floor_bytes},
      {"fan_bytes", &L::fan_bytes},
      {"fan_small_bytes", &L::fan_small_bytes},
      {"slab_bytes", &L::slab_bytes},
      {"run_bytes", &L::run_bytes},
      {"file_min_bytes", &L::file_min_bytes},
      {"file_max_bytes", &L::file_max_bytes},
      {"file_share", &L::file_share},
      {"outer_shards", &L::outer_shards},
      {"alignment_bytes", &L::alignment_bytes},
      {"merge_bytes", &L::merge_bytes},
      {"segment_bytes", &L::segment_bytes},
      {"commit_bytes", &L::commit_bytes},
      {"commit_ms", &L::commit_ms}};
  for (const std::string& part : hfshard::split(text, ',')) {
    const std::size_t equals = part.find('=');
    const auto field = fields.find(part.substr(0, equals));
    if (equals == std::string::npos || field == fields.end()) return false;
    limits.*(field->second) = std::strtoull(part.c_str() + equals + 1, nullptr, 10);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  hfshard::Limits limits;
  std::vector<const char*> rest(argv, argv + argc);
  for (std::size_t i = 1; i + 1 < rest.size(); ++i) {
    if (std::string_view(rest[i]) != "--limits") continue;
    if (!set_limits(limits, rest[i + 1])) {
      std::fputs("hfshard_testtool: unknown limit\n", stderr);
      return 2;
    }
    const auto at = rest.begin() + static_cast<std::ptrdiff_t>(i);
    rest.erase(at, at + 2);
    break;
  }
  return hfshard::tool_main(static_cast<int>(rest.size()), rest.data(), limits);
}
