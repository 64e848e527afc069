#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tool/options.h"

#include "hfshard/convert.h"

namespace hfshard {

/// What all commands share. Each *_command makes the table of one (name, default, unit and help in
/// one place); tool_main runs the chosen one, prints errors and returns the exit status: 0, 3 for
/// findings of `mappings check`, 5 for differences.
struct Session {
  bool json = false;               ///< --json: one object on stdout
  bool quiet = false;              ///< --quiet: no notes, and no progress unless it is asked for
  std::string progress = "auto";   ///< --progress
  unsigned hub_retry_ms = 1000;    ///< HubOptions::retry_ms
  unsigned progress_ms = 0;        ///< between two lines of it, where there is no terminal
  const Limits* limits = nullptr;  ///< RunOptions::limits: of the test tool
  std::vector<std::string> words;  ///< the command line
};

/// stdout, with a newline. Results only.
void print_line(const std::string& text);
/// What is printed on stderr afterwards stands behind it, where both are one.
void flush_results();
/// stderr, with a newline. Progress, notes and errors.
void print_note(const Session& session, const std::string& text);
/// One JSON object on stdout: adds "schema": 1 and "command".
void print_json(std::string_view command, Json object);
/// The same with one long list as its last member, printed an item a line and never held whole.
void print_json_list(std::string_view command, Json object, std::string_view member,
                     std::size_t count, const std::function<Json(std::size_t)>& item);

/// --json, --quiet and --help, of every command that does something.
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

/// The program with all its commands.
Command program(Session& session);

}  // namespace hfshard
