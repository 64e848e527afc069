#include "tool/error_report.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/text.h"
#include "tool/color.h"
#include "tool/fields.h"
#include "tool/help.h"
#include "tool/progress.h"

namespace hfshard {
namespace {

constexpr std::size_t kFactHang = 10;  // two spaces, and a label of eight
constexpr std::string_view kHintFact = "  hint    ";
constexpr std::string_view kProgramLabel = "hfshard:";

// Returns where the command at the end of a hint begins, or npos.
std::size_t command_in(std::string_view hint) {
  std::size_t out = std::string_view::npos;
  for (const std::string_view before : {"run: ", "did you mean: ", ": hfshard ", "Hub model? "}) {
    const std::size_t at = hint.rfind(before);
    if (at == std::string_view::npos) continue;
    out = before == ": hfshard " ? at + 2 : at + before.size();
    break;
  }
  return out;
}

std::vector<std::string> hint_lines(std::string_view hint, std::size_t columns) {
  if (hint.size() <= columns) return {std::string(hint)};
  const std::size_t command = command_in(hint);
  if (command == std::string_view::npos) return wrapped(hint, columns);
  std::vector<std::string> out = wrapped(hint.substr(0, command - 1), columns);
  out.emplace_back(hint.substr(command));
  return out;
}

}  // namespace

Json error_json(const Error& error) {
  Json out;
  out["code"] = to_string(error.code());
  out["message"] = error.sentence();
  if (!error.file().empty()) out["file"] = error.file();
  if (!error.tensor().empty()) out["tensor"] = error.tensor();
  if (!error.rule().empty()) out["rule"] = error.rule();
  if (!error.hint_text().empty()) out["hint"] = error.hint_text();
  if (const auto place = error.place()) {
    out["line"] = place->line;
    out["column"] = place->column;
  }
  if (const auto range = error.range()) {
    add_range(range, out);
    out["total_bytes"] = error.total_bytes();
  }
  return out;
}

std::size_t error_columns() {
  return ::isatty(STDERR_FILENO) == 1 ? terminal_columns(STDERR_FILENO) : SIZE_MAX / 2;
}

std::string error_text(const Error& error, std::size_t columns) {
  const std::size_t room = columns - std::min(columns, kFactHang);
  std::string out;
  for (const std::string& fact : split(error.format(), '\n')) {
    const std::string line = printable(fact);
    if (out.empty()) {
      const std::vector<std::string> lines = wrapped(std::string(kProgramLabel) + " " + line,
                                                     columns - std::min<std::size_t>(columns, 2));
      const std::size_t label = lines.front().find("]:");
      const std::size_t head = label == std::string::npos ? kProgramLabel.size() : label + 2;
      out += colored(Tone::error, lines.front().substr(0, head), STDERR_FILENO) +
             lines.front().substr(head) + "\n";
      for (std::size_t i = 1; i < lines.size(); ++i) out += "  " + lines[i] + "\n";
    } else if (line.starts_with(kHintFact)) {
      std::string_view begin = kHintFact;
      for (const std::string& part :
           hint_lines(std::string_view(line).substr(kHintFact.size()), room)) {
        out += std::string(begin) + part + "\n";
        begin = "          ";
      }
    } else {
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace hfshard
