#include "tool/cli.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/version.h"
#include "tool/fields.h"
#include "tool/help.h"
#include "tool/interrupt.h"
#include "tool/option_pairs.h"
#include "tool/parser.h"
#include "tool/progress.h"
#include "tool/tool.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::atomic<bool> g_interrupted{
    false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): set by a signal

extern "C" void on_interrupt(int) { g_interrupted.store(true); }

constexpr std::size_t kHelpColumns = 80;  // longer lines are hard to read

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

// What was stopped says which command goes on with it.
Error with_way_on(const Session& session, const Parsed& parsed, const Error& error) {
  const bool resumes = std::ranges::any_of(
      parsed.command->options, [](const Option& option) { return option.name == "--resume"; });
  if (error.code() != ErrorCode::cancelled || !resumes || error.file().empty()) return error;
  std::vector<std::string> words;
  bool asks = false;
  for (const std::string& word : session.words) {
    words.push_back(shell_word(word));
    asks = asks || word == "--resume" || word == "--overwrite";  // which goes on by itself
  }
  if (!asks) words.emplace_back("--resume");
  return Error(error.code(), error.sentence())
      .in_file(error.file())
      .hint("go on with: " + join(words, " "));
}

int run_guarded(const Session& session, const Parsed& parsed) {
  // Given back before the lack of memory is reported, which takes some.
  constexpr std::size_t kReserveBytes = std::size_t{64} << 10;
  auto reserve = std::make_unique_for_overwrite<char[]>(kReserveBytes);
  try {
    check_pairs(parsed);
    return parsed.command->run();
  } catch (const Error& error) {  // the one place where errors become text
    return report(session, with_way_on(session, parsed, error));
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

// `hfshard help COMMAND` is `hfshard COMMAND --help`, and so is `hfshard` alone.
std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> out(argv + std::min(argc, 1), argv + argc);
  if (out.empty()) return {"--help"};
  if (out.front() != "help") return out;
  while (!out.empty() && out.front() == "help") out.erase(out.begin());
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

void flush_results() { static_cast<void>(std::fflush(stdout)); }

void print_note(const Session& session, const std::string& text) {
  if (!session.quiet) put(text + "\n", stderr);
}

void print_json(std::string_view command, Json object) {
  object["schema"] = 1;
  object["command"] = command;
  print_line(shown_json(object));
}

void print_json_list(std::string_view command, Json object, std::string_view member,
                     std::size_t count, const std::function<Json(std::size_t)>& item) {
  object["schema"] = 1;
  object["command"] = command;
  std::string head = shown_json(object);
  head.pop_back();  // the closing brace
  put(fmt::format("{},\"{}\":[", head, member), stdout);
  for (std::size_t i = 0; i < count; ++i) {
    put((i == 0 ? "\n" : ",\n") + shown_json(item(i)), stdout);
  }
  put("]}\n", stdout);
}

OptionTable common_table(Session& session) {
  return {
      {.name = "--json", .to = &session.json, .help = "print one JSON object on stdout (schema 1)"},
      {.name = "--quiet",
       .letter = "-q",
       .to = &session.quiet,
       .help = "no progress and no notes on stderr"},
      help_option()};
}

Command program(Session& session) {
  Command out{.name = "hfshard",
              .summary = "HuggingFace checkpoints to sharded Orbax checkpoints, in bounded memory"};
  out.description = {"hfshard help COMMAND says what a command does, its options and examples."};
  out.examples = {{"convert, and compare every byte", "hfshard convert Qwen3-8B out"},
                  {"", "hfshard verify out Qwen3-8B"}};
  out.options = {help_option(),
                 {.name = "--version", .letter = "-V", .help = "print the version and exit"}};
  out.commands = {convert_command(session),
                  link_command(session),
                  reshard_command(session),
                  plan_command(session),
                  verify_command(session),
                  diff_command(session),
                  mappings_command(session),
                  inspect_command(session),
                  fetch_command(session),
                  finalize_command(session),
                  clean_command(session),
                  completions_command(),
                  man_command()};
  return out;
}

namespace {

int read_and_run(int argc, const char* const* argv, const Limits* limits, unsigned progress_ms,
                 unsigned hub_retry_ms) {
  // Before threads start: malloc does not spread over heaps of theirs, and so stays in what
  // a plan counts for it.
  ::mallopt(M_ARENA_MAX, 2);
  Session session;
  session.limits = limits;
  session.progress_ms = progress_ms;
  session.hub_retry_ms = hub_retry_ms;
  session.words.assign(argv, argv + argc);
  const Command app = program(session);
  const std::vector<std::string> words = arguments_of(argc, argv);
  const Parsed parsed = parse(app, words);
  if (parsed.error) {
    // Once the command is known, --json is too, wherever it stands and whatever else is wrong.
    session.json = parsed.command != &app && std::ranges::find(words, "--json") != words.end();
    return report(session, *parsed.error);
  }
  if (parsed.ask != Parsed::Ask::run) {
    put(parsed.ask == Parsed::Ask::version
            ? fmt::format("hfshard {}\n", kVersion)
            : help_text(*parsed.command, parsed.path,
                        std::min(kHelpColumns, terminal_columns(STDOUT_FILENO))),
        stdout);
    return with_output_checked(session, 0);
  }
  return with_output_checked(session, run_guarded(session, parsed));
}

// A stream that the caller has closed is the next file that is opened, and would get what is
// printed.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // What is printed where nobody reads fails, as it does for a closed stream.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", mode));
  }
}

}  // namespace

int tool_main(int argc, const char* const* argv, const Limits* limits, unsigned progress_ms,
              unsigned hub_retry_ms) {
  hold_standard_streams();
  // A file that grows beyond `ulimit -f` is an error of the write, which says which file.
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  try {
    return read_and_run(argc, argv, limits, progress_ms, hub_retry_ms);
  } catch (const std::bad_alloc&) {  // too little for the command line itself, or for saying more
    static_cast<void>(std::fputs(
        "hfshard: error [limit]: out of memory\n  hint    give the process more memory\n", stderr));
    return exit_status(ErrorCode::limit);
  }
}

}  // namespace hfshard
