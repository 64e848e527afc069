#include "tool/options.h"

#include <algorithm>

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool is_among(const Option& option, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, option.name) != names.end();
}

}  // namespace

std::string_view to_string(Group group) noexcept {
  switch (group) {
    case Group::model:
      return "Model";
    case Group::values:
      return "Values";
    case Group::checkpoint:
      return "Checkpoint";
    case Group::link:
      return "Link";
    case Group::load:
      return "Load";
    case Group::example:
      return "Example";
    case Group::run:
      return "Run";
    case Group::output:
      return "Output";
  }
  return "";
}

Option help_option() {
  return {.name = "--help", .letter = "-h", .help = "print this help and exit"};
}

OptionTable joined(std::initializer_list<OptionTable> tables) {
  OptionTable out;
  for (const OptionTable& table : tables) out.insert(out.end(), table.begin(), table.end());
  return out;
}

OptionTable without(OptionTable table, std::initializer_list<std::string_view> names) {
  const std::size_t before = table.size();
  std::erase_if(table, [&](const Option& option) { return is_among(option, names); });
  HFSHARD_CHECK(before - table.size() == names.size());
  return table;
}

OptionTable only(const OptionTable& table, std::initializer_list<std::string_view> names) {
  OptionTable out;
  std::ranges::copy_if(table, std::back_inserter(out),
                       [&](const Option& option) { return is_among(option, names); });
  HFSHARD_CHECK(out.size() == names.size());
  return out;
}

}  // namespace hfshard
