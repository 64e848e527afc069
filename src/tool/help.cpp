#include "tool/help.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

constexpr std::size_t kFewestColumns = 40;
constexpr std::size_t kHelpColumn = 28;
constexpr std::size_t kTextColumns = 24;  // with less room, help goes below the names
constexpr std::size_t kIndent = 6;

// Returns the variable's value before parsing, unless it is empty or a list.
std::string held(const Variable& variable) {
  return std::visit(
      [](auto to) -> std::string {
        using Pointer = decltype(to);
        if constexpr (std::is_same_v<Pointer, std::string*>) {
          return *to;
        } else if constexpr (std::is_same_v<Pointer, std::uint64_t*> ||
                             std::is_same_v<Pointer, unsigned*>) {
          return std::to_string(*to);
        } else {
          return {};
        }
      },
      variable);
}

std::string with_notes(const std::string& help, const std::vector<std::string>& notes) {
  return notes.empty() ? help : fmt::format("{} ({})", help, join(notes, "; "));
}

// Returns `  -j, --jobs N`, or `      --mesh NAME=N,...`.
std::string option_head(const Option& option) {
  std::string out = option.letter.empty() ? std::string(kIndent, ' ') : "  " + option.letter + ", ";
  out += option.name;
  return option.value.empty() ? out : out + " " + option.value;
}

// Prints a name with its meaning next to or below it.
class Sheet {
 public:
  explicit Sheet(std::size_t columns) : columns_(std::max(columns, kFewestColumns)) {}

  void line(const std::string& text = {}) { out_ += text + "\n"; }
  void heading(std::string_view text) { out_ += fmt::format("\n{}:\n", text); }
  void paragraph(std::string_view text) {
    for (const std::string& part : wrapped(text, columns_)) line(part);
  }
  void entry(std::string head, std::string_view help) {
    const bool beside = columns_ >= kHelpColumn + kTextColumns;
    const std::size_t column = beside ? kHelpColumn : kIndent + 2;
    const std::string indent(column, ' ');
    std::vector<std::string> lines = wrapped(help, columns_ - column);
    std::size_t first = 0;
    if (beside && head.size() + 2 <= column) {
      head.append(column - head.size(), ' ');
      head += lines[first++];
    }
    line(head);
    for (; first < lines.size(); ++first) line(indent + lines[first]);
  }
  const std::string& text() const { return out_; }

 private:
  std::size_t columns_;
  std::string out_;
};

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> out;
  std::string line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > width)
      out.push_back(std::exchange(line, {}));
    line += (line.empty() ? "" : " ") + word;
  }
  out.push_back(line);
  return out;
}

std::string usage_line(const Command& command, std::string_view path) {
  std::string out(path);
  if (!command.commands.empty()) return out + " COMMAND";
  if (!command.options.empty()) out += " [OPTIONS]";
  for (const Positional& positional : command.positionals)
    out += positional.required ? " " + positional.name : fmt::format(" [{}]", positional.name);
  return out;
}

std::string option_help(const Option& option) {
  std::vector<std::string> notes;
  const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.to);
  const std::string standard = option.standard.empty() ? held(option.to) : option.standard;
  if (!standard.empty()) notes.push_back("default " + standard);
  if (repeats) notes.emplace_back("may be repeated");
  return with_notes(option.help, notes);
}

std::string positional_help(const Positional& positional) {
  if (positional.standard.empty()) return positional.help;
  return with_notes(positional.help, {"default " + positional.standard});
}

std::vector<std::pair<Group, std::vector<const Option*>>> grouped(const OptionTable& table) {
  std::vector<std::pair<Group, std::vector<const Option*>>> out;
  for (const Group group : {Group::model, Group::values, Group::checkpoint, Group::link,
                            Group::load, Group::example, Group::run, Group::output}) {
    std::vector<const Option*> options;
    for (const Option& option : table) {
      if (option.group == group) options.push_back(&option);
    }
    if (!options.empty()) out.emplace_back(group, std::move(options));
  }
  return out;
}

std::string help_text(const Command& command, std::string_view path, std::size_t columns) {
  Sheet sheet(columns);
  sheet.paragraph(command.summary);
  sheet.line();
  sheet.paragraph("Usage: " + usage_line(command, path));
  for (const std::string& paragraph : command.description) {
    sheet.line();
    sheet.paragraph(paragraph);
  }
  if (!command.positionals.empty()) sheet.heading("Arguments");
  for (const Positional& positional : command.positionals)
    sheet.entry("  " + positional.name, positional_help(positional));
  if (!command.commands.empty()) sheet.heading("Commands");
  for (const Command& child : command.commands) sheet.entry("  " + child.name, child.summary);
  for (const auto& [group, options] : grouped(command.options)) {
    sheet.heading(to_string(group));
    for (const Option* option : options) sheet.entry(option_head(*option), option_help(*option));
  }
  if (!command.examples.empty()) sheet.heading("Examples");
  for (const Example& example : command.examples) {
    if (!example.what.empty()) sheet.line("  # " + example.what);  // harmless when pasted
    sheet.line("  " + example.line);
  }
  return sheet.text();
}

}  // namespace hfshard
