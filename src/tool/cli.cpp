#include "tool/cli.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "base/version.h"
#include "tool/interrupt.h"
#include "tool/tool.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::atomic<bool> g_interrupted{
    false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): set by a signal

extern "C" void on_interrupt(int) { g_interrupted.store(true); }

// What cannot be printed has nobody to tell.
void put(const std::string& text, std::FILE* to) {
  static_cast<void>(std::fputs(text.c_str(), to));
}

Json error_json(const Error& error) {
  Json out;
  out["code"] = to_string(error.code());
  out["message"] = error.sentence();
  if (!error.file().empty()) out["file"] = error.file();
  if (!error.tensor().empty()) out["tensor"] = error.tensor();
  if (!error.rule().empty()) out["rule"] = error.rule();
  if (!error.hint_text().empty()) out["hint"] = error.hint_text();
  if (const auto range = error.range()) {
    out["begin_bytes"] = range->begin;
    out["end_bytes"] = range->end;
    out["total_bytes"] = error.total_bytes();
  }
  return out;
}

int report(const Session& session, const Error& error) {
  // What goes to standard output stands before what goes to standard error, where both are one.
  if (session.json) {
    Json object;
    object["error"] = error_json(error);
    print_json("error", std::move(object));
  }
  static_cast<void>(std::fflush(stdout));
  put("hfshard: " + error.format() + "\n", stderr);
  return exit_status(error.code());
}

int run_guarded(Session& session) {
  // Given back before the lack of memory is reported, which takes some.
  constexpr std::size_t kReserveBytes = std::size_t{64} << 10;
  auto reserve = std::make_unique_for_overwrite<char[]>(kReserveBytes);
  try {
    return session.run();
  } catch (const Error& error) {  // the one place where errors become text
    return report(session, error);
  } catch (const std::bad_alloc&) {
    reserve.reset();
    return report(session, Error(ErrorCode::limit, "out of memory")
                               .hint("lower --jobs, or give the process more memory; a "
                                     "conversion that was begun goes on with --resume"));
  } catch (const std::system_error& error) {  // what the system refused is no bug of ours
    return report(session, Error(ErrorCode::io, error.what()));
  } catch (const std::exception& error) {
    return report(session, Error(ErrorCode::internal, error.what()));
  }
}

// What was printed must have arrived: a full disk under a redirected stdout is an error too.
int with_output_checked(Session& session, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  session.json = false;  // there is nowhere to print it
  return report(session, Error(ErrorCode::io, "standard output cannot be written"));
}

// CLI11 says only that a command is missing; this says which word is none.
void check_command(const CLI::App& app, const std::vector<std::string>& words, std::size_t at) {
  if (at >= words.size() || words[at].starts_with("-")) return;
  const std::string& word = words[at];
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
    if (command->get_name() != word) continue;
    if (!command->get_subcommands({}).empty()) check_command(*command, words, at + 1);
    return;
  }
  const std::vector<std::string> near = near_names(word, names);
  throw Error(ErrorCode::usage, fmt::format("there is no command {}", quote(word)))
      .hint(near.empty() ? "commands are " + join(names, ", ")
                         : "did you mean " + join(near, " or ") + "?");
}

// The command that was read last, and how it is called.
std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path = "hfshard";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  return {at, path};
}

// CLI11 reports wrong flags this way.
Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, path] = chosen_command(app);
  const std::string help = fmt::format("see {} --help", path);
  for (const std::string& word : command->remaining(true)) {
    if (!word.starts_with("-")) continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string typed = word.substr(0, word.find('='));
    const std::vector<std::string> near = near_names(typed, names);
    return Error(ErrorCode::usage, fmt::format("{} has no option {}", path, quote(typed)))
        .hint(near.empty() ? help : fmt::format("did you mean {}? {}", join(near, " or "), help));
  }
  return Error(ErrorCode::usage, error.what()).hint(help);
}

// `hfshard help COMMAND` is `hfshard COMMAND --help`, and so is `hfshard` alone.
std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> out(argv + std::min(argc, 1), argv + argc);
  if (out.empty()) return {"--help"};
  if (out.front() != "help") return out;
  out.erase(out.begin());
  out.emplace_back("--help");
  return out;
}

}  // namespace

const std::atomic<bool>& watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(
      SA_RESETHAND);  // a second Ctrl-C ends the process at once; staging survives that too
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return g_interrupted;
}

void print_line(const std::string& text) { put(text + "\n", stdout); }

void print_note(const Session& session, const std::string& text) {
  if (!session.quiet) put(text + "\n", stderr);
}

void print_json(std::string_view command, Json object) {
  object["schema"] = 1;
  object["command"] = command;
  print_line(dump_json(object));
}

void print_json_list(std::string_view command, Json object, std::string_view member,
                     std::size_t count, const std::function<Json(std::size_t)>& item) {
  object["schema"] = 1;
  object["command"] = command;
  std::string head = dump_json(object);
  head.pop_back();  // the closing brace
  put(fmt::format("{},\"{}\":[", head, member), stdout);
  for (std::size_t i = 0; i < count; ++i) {
    put((i == 0 ? "\n" : ",\n") + dump_json(item(i)), stdout);
  }
  put("]}\n", stdout);
}

void add_common_flags(CLI::App& command, Session& session) {
  command.add_flag("--json", session.json, "print one JSON object on stdout (schema 1)");
  command.add_flag("-q,--quiet", session.quiet, "no progress and no notes on stderr");
}

namespace {

int read_and_run(int argc, const char* const* argv, const Limits* limits) {
  // Before threads start: malloc does not spread over heaps of theirs, and so stays in what
  // a plan counts for it.
  ::mallopt(M_ARENA_MAX, 2);
  Session session;
  session.limits = limits;
  CLI::App app("hfshard: HuggingFace checkpoints to sharded Orbax checkpoints, in bounded memory",
               "hfshard");
  app.set_version_flag("-V,--version", std::string("hfshard ") + kVersion);
  app.require_subcommand(1);
  add_convert_command(app, session);
  add_link_command(app, session);
  add_plan_command(app, session);
  add_verify_command(app, session);
  add_mappings_command(app, session);
  add_inspect_command(app, session);
  add_finalize_command(app, session);
  add_clean_command(app, session);
  std::vector<std::string> words = arguments_of(argc, argv);
  // Once the command is known, --json is too, wherever it stands and whatever else is wrong.
  const bool wants_json = std::ranges::find(words, "--json") != words.end();
  try {
    check_command(app, words, 0);
    std::ranges::reverse(words);  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const Error& error) {
    session.json = wants_json && !app.get_subcommands().empty();
    return report(session, error);
  } catch (const CLI::ParseError& error) {
    session.json = wants_json && !app.get_subcommands().empty();
    return report(session, usage_error(app, error));
  }
  return with_output_checked(session, run_guarded(session));
}

}  // namespace

int tool_main(int argc, const char* const* argv, const Limits* limits) {
  try {
    return read_and_run(argc, argv, limits);
  } catch (const std::bad_alloc&) {  // too little for the command line itself, or for saying more
    static_cast<void>(std::fputs(
        "hfshard: error [limit]: out of memory\n  hint    give the process more memory\n", stderr));
    return exit_status(ErrorCode::limit);
  }
}

}  // namespace hfshard
