#include "service/uneven.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

namespace hfshard {
namespace {

// Tensors of one module, without the module's name.
using Inner = std::set<std::string>;
// The modules with one name and different numbers, such as "visual.blocks.".
using Modules = std::map<std::uint64_t, Inner>;

// Fewer modules, or modules with fewer tensors, often differ by design.
constexpr std::size_t kFewestModules = 3;
constexpr std::size_t kFewestTensors = 4;

// Adds a name to the modules of each number in it.
void add(const std::string& name, std::map<std::string, Modules>& out) {
  std::size_t at = 0;
  for (const std::string& part : split(name, '.')) {
    const std::size_t end = at + part.size() + 1;
    const auto number = parse_whole(part);
    if (number && end < name.size()) out[name.substr(0, at)][*number].insert(name.substr(end));
    at = end;
  }
}

// Returns the tensors that more than half of the modules have alike, or nullptr.
const Inner* usual(const Modules& modules) {
  std::map<Inner, std::size_t> counts;
  for (const auto& [number, inner] : modules) ++counts[inner];
  for (const auto& [number, inner] : modules) {
    if (2 * counts.at(inner) > modules.size()) return &inner;
  }
  return nullptr;
}

std::string lack_of(const std::string& module, std::size_t count, const std::string& first) {
  return fmt::format("{} lacks {} that the others beside it have, such as {}", quote(module),
                     count == 1 ? "a tensor" : fmt::format("{} tensors", count), quote(first));
}

std::string uneven_among(const std::string& stem, const Modules& modules) {
  const std::uint64_t last = modules.rbegin()->first;
  if (modules.size() < kFewestModules || last >= 2 * modules.size()) return {};
  const Inner* all = usual(modules);
  if (all == nullptr || all->size() < kFewestTensors) return {};
  for (std::uint64_t number = 0; number <= last; ++number) {
    const std::string module = fmt::format("{}{}", stem, number);
    const auto found = modules.find(number);
    if (found == modules.end()) return lack_of(module, all->size(), module + "." + *all->begin());
    Inner lacks;
    std::ranges::set_difference(*all, found->second, std::inserter(lacks, lacks.end()));
    if (!lacks.empty()) return lack_of(module, lacks.size(), module + "." + *lacks.begin());
  }
  return {};
}

}  // namespace

std::string uneven_modules(const std::vector<std::string>& names) {
  std::map<std::string, Modules> modules;
  for (const std::string& name : names) add(name, modules);
  for (const auto& [stem, numbered] : modules) {
    std::string out = uneven_among(stem, numbered);
    if (!out.empty()) return out;
  }
  return {};
}

}  // namespace hfshard
