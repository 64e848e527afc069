#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"

#include "hfshard/convert.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
}

namespace hfshard {

/// What all commands share. Each add_*_command defines one subcommand with its flags (name,
/// default, unit and help in one place) and sets `session.run` in its callback; tool_main runs it,
/// prints errors and returns the exit status.
struct Session {
  bool json = false;               ///< --json: one object on stdout
  bool quiet = false;              ///< --quiet: no progress, no notes
  const Limits* limits = nullptr;  ///< RunOptions::limits: of the test tool
  /// The chosen command; returns the exit status (0, 3 for findings of `mappings check`, 5 for
  /// differences).
  std::function<int()> run;
};

/// stdout, with a newline. Results only.
void print_line(const std::string& text);
/// stderr, with a newline. Progress, notes and errors.
void print_note(const Session& session, const std::string& text);
/// One JSON object on stdout: adds "schema": 1 and "command".
void print_json(std::string_view command, Json object);
/// The same with one long list as its last member, printed an item a line and never held whole.
void print_json_list(std::string_view command, Json object, std::string_view member,
                     std::size_t count, const std::function<Json(std::size_t)>& item);

/// Adds --json and --quiet to a subcommand.
void add_common_flags(CLI::App& command, Session& session);

void add_convert_command(CLI::App& app, Session& session);
void add_link_command(CLI::App& app, Session& session);
void add_plan_command(CLI::App& app, Session& session);
void add_verify_command(CLI::App& app, Session& session);
void add_finalize_command(CLI::App& app, Session& session);
void add_clean_command(CLI::App& app, Session& session);
void add_inspect_command(CLI::App& app, Session& session);
void add_mappings_command(CLI::App& app, Session& session);

}  // namespace hfshard
