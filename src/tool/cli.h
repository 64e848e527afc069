#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tool/options.h"

#include "hfshard/convert.h"

namespace hfshard {

/// The parts that all commands share. Each *_command builds the table of one command, with its
/// names, defaults, units and help. The function tool_main runs the chosen command, prints errors
/// and returns the exit status. The status is 0, 3 if `mappings check` found problems, or 5 for
/// differences.
struct Session {
  bool json = false;               ///< --json: one object on standard output
  bool quiet = false;              ///< --quiet: only errors, differences, answers
  std::string progress = "auto";   ///< --progress
  std::string color = "auto";      ///< --color
  unsigned hub_retry_ms = 1000;    ///< HubOptions::retry_ms
  unsigned progress_ms = 0;        ///< between two lines without a terminal
  const Limits* limits = nullptr;  ///< RunOptions::limits, for the test tool
  std::vector<std::string> words;  ///< the command line
};

/// Prints a line of results on standard output. Text from files stays on its line, and a terminal
/// shows it without interpreting it.
void print_line(const std::string& text);
/// Prints a line about data that should be equal: the head in its color, then the rest.
void print_difference(std::string_view head, const std::string& rest);
/// Prints the program's own text (a script, a page) unchanged on standard output.
void print_text(const std::string& text);
/// Flushes standard output, so that later text on standard error follows it.
void flush_results();
/// Prints a line of progress, a note or an error on standard error, as print_line does.
void print_note(const Session& session, const std::string& text);
/// Prints a JSON object on standard output, with "schema": 1 and "command" added.
void print_json(std::string_view command, Json object);
/// Prints the same with one long list as its last member, one item per line, never held whole.
void print_json_list(std::string_view command, Json object, std::string_view member,
                     std::size_t count, const std::function<Json(std::size_t)>& item);

/// Returns --json, --quiet and --help, which every command has.
OptionTable common_table(Session& session);

Command convert_command(Session& session);
Command link_command(Session& session);
Command reshard_command(Session& session);
Command plan_command(Session& session);
Command verify_command(Session& session);
Command diff_command(Session& session);
Command finalize_command(Session& session);
Command clean_command(Session& session);
Command inspect_command(Session& session);
Command fetch_command(Session& session);
Command mappings_command(Session& session);
Command completions_command();
Command man_command();

/// Returns the program with all its commands.
Command program(Session& session);

}  // namespace hfshard
