#include "run/engine/cpus.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "run/engine/tbb_stages.h"

namespace hfshard {
namespace {

// Reads a kernel file, whose size isn't known. Empty if it doesn't exist.
std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out = split(line, ' ');
  std::erase(out, "");
  return out;
}

// Empty for `max`, -1 and other texts.
std::optional<std::uint64_t> positive(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

std::string first_line(const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  return lines.empty() ? std::string() : lines.front();
}

// Returns the limit of one group. Source: Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max,
// and Documentation/scheduler/sched-bwc.rst.
std::optional<unsigned> group_cpus(const std::string& group, bool second) {
  std::vector<std::string> words;
  if (second) {
    words = words_of(first_line(join_path(group, "cpu.max")));
  } else {
    words = {first_line(join_path(group, "cpu.cfs_quota_us")),
             first_line(join_path(group, "cpu.cfs_period_us"))};
  }
  if (words.size() != 2) return std::nullopt;
  const auto quota = positive(words[0]);
  const auto period = positive(words[1]);
  if (!quota || !period) return std::nullopt;
  const std::uint64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<unsigned>(std::min<std::uint64_t>(cpus, 1U << 20));
}

bool lists_cpu(const std::string& controllers) {
  const std::vector<std::string> all = split(controllers, ',');
  return std::ranges::find(all, "cpu") != all.end();
}

// Returns the group of this process in a hierarchy, from /proc/self/cgroup. Empty if it isn't in
// one.
std::optional<std::string> own_group(const std::vector<std::string>& groups, bool second) {
  for (const std::string& line : groups) {  // number:controllers:path, or 0::path in version 2
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3 || (second ? parts[0] != "0" : !lists_cpu(parts[1]))) continue;
    return line.substr(parts[0].size() + parts[1].size() + 2);
  }
  return std::nullopt;
}

struct Mount {
  std::string root;  // the group at the mount point
  std::string point;
  bool second = false;
};

// Finds where the groups that limit CPU time are mounted.
std::vector<Mount> find_mounts(const std::string& mountinfo) {
  std::vector<Mount> out;
  for (const std::string& line : read_lines(mountinfo)) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::ranges::find(words, "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const bool second = *(dash + 1) == "cgroup2";
    if (second || (*(dash + 1) == "cgroup" && lists_cpu(*(dash + 3))))
      out.push_back({words[3], words[4], second});
  }
  return out;
}

}  // namespace

std::optional<unsigned> quota_cpus(const std::string& system) {
  const std::vector<std::string> groups = read_lines(system + "/proc/self/cgroup");
  std::optional<unsigned> least;
  for (const Mount& mount : find_mounts(system + "/proc/self/mountinfo")) {
    const auto own = own_group(groups, mount.second);
    if (!own) continue;
    // A container sees its own group at the mount point, but can get the path outside of it.
    const std::string root = mount.root == "/" ? "" : mount.root;
    std::string below = own->starts_with(root) ? own->substr(root.size()) : "";
    for (;;) {
      const auto cpus = group_cpus(fmt::format("{}{}{}", system, mount.point, below), mount.second);
      if (cpus) least = std::min(least.value_or(*cpus), *cpus);
      if (below.empty()) break;
      below.resize(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
  }
  return least;
}

unsigned usable_cpus() {
  const unsigned cpus = std::max(1U, process_concurrency());
  return std::min(cpus, quota_cpus().value_or(cpus));
}

}  // namespace hfshard
