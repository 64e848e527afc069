#include "catalog/manifest_head.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "base/coding.h"
#include "base/json.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The head of a model in a thousand files has 200 kB.
constexpr std::size_t kFirstBytes = std::size_t{1} << 16;
constexpr std::size_t kMostBytes = std::size_t{1} << 26;
// Its lists follow, one below the other, and this ends the last.
constexpr std::string_view kEnd = "]}\n";

bool ends_as_written(const SourceFile& file) {
  std::array<char, kEnd.size()> end{};
  if (file.size_bytes() < end.size()) return false;
  file.read_at(file.size_bytes() - end.size(), std::as_writable_bytes(std::span(end)));
  return std::string_view(end.data(), end.size()) == kEnd;
}

// Returns the first line. Empty if it is longer than kMostBytes.
std::string first_line(const SourceFile& file) {
  std::string text;
  for (std::size_t size = kFirstBytes; size <= kMostBytes; size *= 2) {
    text.resize(std::min<std::uint64_t>(size, file.size_bytes()));
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    const std::size_t end = text.find('\n');
    if (end != std::string::npos) return text.substr(0, end);
    if (text.size() == file.size_bytes()) break;
  }
  return {};
}

}  // namespace

ManifestHead manifest_head(const StorePath& directory) {
  const StorePath path = directory / kManifestName;
  if (!path.is_file()) return {};
  const std::unique_ptr<SourceFile> file = path.open();
  std::string head = first_line(*file);
  if (!head.ends_with(',') || !ends_as_written(*file)) return {};
  head.back() = '}';
  try {
    const Json json = parse_json(head, path.text());
    const auto text_of = [&](const char* member) {
      const Json* text = json.find(member);
      return text && text->is_string() ? text->as_string() : std::string();
    };
    const Json* identity = json.find("identity");
    return {text_of("plan_id"), text_of("tool"), identity ? *identity : Json()};
  } catch (const Error& error) {  // who opens the output says what is wrong with it
    if (error.code() == ErrorCode::io) throw;
    return {};
  }
}

}  // namespace hfshard
