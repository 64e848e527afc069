#include "mutation/module_lines.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/floats.h"
#include "base/text.h"

namespace hfshard::mutation {
namespace {

// A name without its first number between dots.
struct Folded {
  std::string before, after;
  std::optional<std::uint64_t> number;
  auto key() const { return std::pair(before, after); }
};

Folded folded(const std::string& name) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::size_t end = name.find('.', dot + 1);
    if (end == std::string::npos) break;
    const std::string part = name.substr(dot + 1, end - dot - 1);
    if (part.empty() || !std::ranges::all_of(part, digit)) continue;
    return {name.substr(0, dot + 1), name.substr(end), std::stoull(part)};
  }
  return {name, {}, {}};
}

std::string digest_of(const Leaf& leaf, const Bytes& bytes) {
  Sha256 sha;
  if (leaf.dtype != DType::bf16) {
    sha.update(bytes);
    return to_hex(sha.finish());
  }
  Bytes wide;
  wide.reserve(2 * bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 2) {  // its bits are an f32's upper ones
    wide.insert(wide.end(), 2, std::byte{0});
    wide.push_back(bytes[at]);
    wide.push_back(bytes[at + 1]);
  }
  sha.update(wide);
  return to_hex(sha.finish());
}

std::string shape_of(const Shape& shape) {
  std::string out;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    out += fmt::format("{}{}", axis == 0 ? "" : "x", shape[axis]);
  return out.empty() ? "scalar" : out;
}

std::string shown(const std::vector<std::uint64_t>& numbers) {
  const bool even = numbers.size() > 2 && numbers.back() - numbers.front() + 1 == numbers.size();
  if (even) return fmt::format("{}-{}", numbers.front(), numbers.back());
  std::vector<std::string> out;
  for (const std::uint64_t number : numbers) out.push_back(std::to_string(number));
  return join(out, ",");
}

// Adds the names of a line: `a.{0-2}.b` has three.
void add_names(const std::string& line, std::set<std::string>& out) {
  const std::size_t open = line.find('{');
  if (open == std::string::npos) {
    out.insert(line);
    return;
  }
  const std::size_t close = line.find('}');
  const auto add = [&](std::uint64_t number) {
    out.insert(line.substr(0, open) + std::to_string(number) + line.substr(close + 1));
  };
  const std::string numbers = line.substr(open + 1, close - open - 1);
  const std::size_t dash = numbers.find('-');
  if (dash == std::string::npos) {
    for (const std::string& number : split(numbers, ',')) add(std::stoull(number));
    return;
  }
  const std::uint64_t last = std::stoull(numbers.substr(dash + 1));
  for (std::uint64_t number = std::stoull(numbers.substr(0, dash)); number <= last; ++number)
    add(number);
}

}  // namespace

std::vector<std::string> other_lines(const Case& made, const Json& lines) {
  using Members = std::map<std::uint64_t, std::string>;  // number -> hash
  std::map<std::pair<std::pair<std::string, std::string>, std::string>, Members> groups;
  std::map<std::pair<std::string, std::string>, bool> numbered;
  std::set<std::string> names;
  for (const auto& [name, line] : lines.as_object()) add_names(name, names);
  for (std::uint32_t i = 0; i < made.original.leaves.size(); ++i) {
    const Leaf& leaf = made.original.leaves[i];
    if (!names.contains(leaf.name)) continue;  // no module has it
    const Folded name = folded(leaf.name);
    numbered[name.key()] = name.number.has_value();
    groups[{name.key(), shape_of(leaf.shape)}].emplace(name.number.value_or(0),
                                                       digest_of(leaf, made.right[i]));
  }
  std::map<std::string, std::string> found;
  for (const auto& [group, members] : groups) {
    const auto& [name, shape] = group;
    std::vector<std::uint64_t> numbers;
    Sha256 sha;
    for (const auto& [number, digest] : members) {
      numbers.push_back(number);
      sha.update(as_bytes(digest));
    }
    const std::string braces = numbered[name] ? "{" + shown(numbers) + "}" : "";
    found[name.first + braces + name.second] = shape + " " + to_hex(sha.finish()).substr(0, 16);
  }
  std::vector<std::string> out;
  for (const auto& [name, line] : lines.as_object()) {
    const auto mine = found.find(name);
    if (mine == found.end() || mine->second != line.as_string()) out.push_back(name);
  }
  return out;
}

}  // namespace hfshard::mutation
