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
#include "tool/color.h"
#include "tool/error_report.h"
#include "tool/habits.h"
#include "tool/help.h"
#include "tool/hint_options.h"
#include "tool/interrupt.h"
#include "tool/option_pairs.h"
#include "tool/out_of_memory.h"
#include "tool/parser.h"
#include "tool/progress.h"
#include "tool/tool.h"
#include "tool/version.h"
#include <sys/resource.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::atomic<bool> g_interrupted{
    false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): set by a signal

extern "C" void on_interrupt(int) { g_interrupted.store(true); }

constexpr std::size_t kHelpColumns = 80;  // longer lines are hard to read

// If standard error fails, nobody can be told.
void put(const std::string& text, std::FILE* to) {
  static_cast<void>(std::fputs(text.c_str(), to));
}

int report(const Session& session, const Error& error) {
  // Flush standard output first, so that both streams keep their order in one file.
  if (session.json) {
    Json object;
    object["error"] = error_json(error);
    print_json("error", std::move(object));
  }
  static_cast<void>(std::fflush(stdout));
  put(error_text(error, error_columns()), stderr);
  return exit_status(error.code());
}

// Adds the command that continues an interrupted run.
Error with_way_on(const Session& session, const Parsed& parsed, const Error& error) {
  const bool resumes = std::ranges::any_of(
      parsed.command->options, [](const Option& option) { return option.name == "--resume"; });
  const bool goes_on = error.hint_text().find("--resume") != std::string::npos;
  if (error.code() != ErrorCode::cancelled || !resumes || !goes_on) return error;
  std::vector<std::string> words;
  bool asks = false;
  for (const std::string& word : session.words) {
    words.push_back(shell_word(word));
    asks = asks || word == "--resume" || word == "--overwrite";  // which continues anyway
  }
  if (!asks) words.emplace_back("--resume");
  return Error(error.code(), error.sentence())
      .in_file(error.file())
      .hint("to continue, run: " + join(words, " "));
}

// The program and its words.
struct Call {
  const Command& app;
  const std::vector<std::string>& words;
};

int run_guarded(const Session& session, const Call& call, const Parsed& parsed) {
  // Freed before the report of a lack of memory, which needs some.
  constexpr std::size_t kReserveBytes = std::size_t{64} << 10;
  auto reserve = std::make_unique_for_overwrite<char[]>(kReserveBytes);
  try {
    check_pairs(parsed);
    return parsed.command->run();
  } catch (const Error& error) {  // the only place that turns errors into text
    const Error meant = with_meant_line(call.app, call.words, with_way_on(session, parsed, error));
    return report(session,
                  meant.rehinted(with_owners(call.app, *parsed.command, meant.hint_text())));
  } catch (const std::bad_alloc&) {
    reserve.reset();
    return report(session, Error(ErrorCode::limit, "out of memory")
                               .hint("lower --jobs, or give the process more memory; pass "
                                     "--resume to continue the conversion"));
  } catch (const std::system_error& error) {  // the system's refusal isn't our bug
    return report(session, Error(ErrorCode::io, error.what()));
  } catch (const std::exception& error) {
    return report(session, Error(ErrorCode::internal, error.what()));
  }
}

// A full disk under a redirected standard output is an error too.
int with_output_checked(Session& session, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  session.json = false;  // standard output is closed
  return report(session, Error(ErrorCode::io, "can't write to standard output"));
}

// Turns `hfshard help COMMAND`, and `hfshard` alone, into --help.
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
      SA_RESETHAND);  // a second Ctrl-C ends the process at once; staging survives it
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return g_interrupted;
}

void print_line(const std::string& text) { put(printable(text) + "\n", stdout); }

void print_text(const std::string& text) { put(text, stdout); }

void flush_results() { static_cast<void>(std::fflush(stdout)); }

void print_note(const Session& session, const std::string& text) {
  if (!session.quiet) put(note_lines(text), stderr);
}

void print_difference(std::string_view head, const std::string& rest) {
  put(colored(Tone::difference, head, STDOUT_FILENO) + printable(rest) + "\n", stdout);
}

void print_json(std::string_view command, Json object) {
  object["schema"] = 1;
  object["command"] = command;
  put(shown_json(object) + "\n", stdout);
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

namespace {

std::vector<std::string> color_names() { return {"auto", "always", "never"}; }

// Returns the value of --color, wherever it stands, even if other words are wrong.
std::string asked_color(const std::vector<std::string>& words) {
  constexpr std::string_view kName = "--color";
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(std::string(kName) + "=")) out = words[i].substr(kName.size() + 1);
    if (words[i] == kName && i + 1 < words.size()) out = words[i + 1];
  }
  return out;
}

}  // namespace

OptionTable common_table(Session& session) {
  return {
      {.name = "--json",
       .to = &session.json,
       .help = "print one JSON object on standard output (schema 1)"},
      {.name = "--quiet",
       .letter = "-q",
       .to = &session.quiet,
       .help = "print only errors, differences and answers"},
      {.name = "--color",
       .to = &session.color,
       .value = "WHEN",
       .choices = color_names(),
       .help = "when to use color: auto (on a terminal, unless NO_COLOR is set), always or never"},
      help_option()};
}

Command program(Session& session) {
  Command out{
      .name = "hfshard",
      .summary =
          "Convert, reshard, compare and verify checkpoints: Hugging Face, Orbax, PyTorch DCP"};
  out.description = {"Run hfshard help COMMAND for a command's options and examples."};
  out.examples = {{"convert a model, then check every byte", "hfshard convert Qwen3-8B out"},
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
  // Must run before threads start: keeps malloc from using a heap for each thread, which a plan
  // doesn't count.
  ::mallopt(M_ARENA_MAX, 2);
  Session session;
  session.limits = limits;
  session.progress_ms = progress_ms;
  session.hub_retry_ms = hub_retry_ms;
  session.words.assign(argv, argv + argc);
  const Command app = program(session);
  const std::vector<std::string> words = arguments_of(argc, argv);
  choose_color(asked_color(words));
  const Parsed parsed = parse(app, words);
  if (parsed.error) {
    // Once the command is known, --json counts wherever it stands, even if other words are wrong.
    session.json = parsed.command != &app && std::ranges::find(words, "--json") != words.end();
    return report(session, with_meant_line(app, words, *parsed.error));
  }
  if (parsed.ask != Parsed::Ask::run) {
    put(parsed.ask == Parsed::Ask::version
            ? version_text()
            : help_text(*parsed.command, parsed.path,
                        std::min(kHelpColumns, terminal_columns(STDOUT_FILENO))),
        stdout);
    return with_output_checked(session, 0);
  }
  return with_output_checked(session, run_guarded(session, {app, words}, parsed));
}

// Opens streams that the caller closed. Otherwise the next opened file would take their number and
// receive what hfshard prints.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Makes printing to a closed pipe an error, as it is for a closed stream.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", mode));
  }
}

// Raises the limit of open files to the highest one that this user may set. Shells start programs
// with 1,024, since select(2) can't use more. hfshard doesn't call it, and a source can have
// thousands of files.
void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace

int tool_main(int argc, const char* const* argv, const Limits* limits, unsigned progress_ms,
              unsigned hub_retry_ms) {
  hold_standard_streams();
  raise_open_files();
  report_out_of_memory_on_terminate();
  // Turns growth beyond `ulimit -f` into a write error, which names the file.
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  try {
    return read_and_run(argc, argv, limits, progress_ms, hub_retry_ms);
  } catch (const std::bad_alloc&) {  // too little memory even for the command line
    print_out_of_memory();
    return exit_status(ErrorCode::limit);
  }
}

}  // namespace hfshard
