#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/completions.h"
#include "tool/help.h"
#include "tool/man.h"
#include "tool/progress.h"
#include "tool/values.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::vector<std::string> shell_names() { return {"bash", "zsh", "fish"}; }

int run_completions(const std::string& shell) {
  constexpr Shell kShells[] = {Shell::bash, Shell::zsh, Shell::fish};
  Session session;  // tables with variables of their own
  print_text(completions(program(session), kShells[one_of(shell, shell_names(), "SHELL")]));
  return 0;
}

void write_page(const std::string& directory, const ManualPage& page) {
  const std::string path = directory + "/" + page.name + ".1";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             &std::fclose);
  if (file == nullptr || std::fputs(page.text.c_str(), file.get()) < 0 ||
      std::fflush(file.get()) != 0)
    throw Error(ErrorCode::io, "can't write the manual page").in_file(path);
}

// Pipes a text to a command. Returns false if the command failed.
bool shown_by(const char* command, const std::string& text) {
  flush_results();
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // the user has left the pager
  std::FILE* const to = ::popen(command, "w");        // NOLINT(cert-env33-c): the user's own pager
  bool shown = to != nullptr;
  if (to != nullptr) {
    static_cast<void>(std::fputs(text.c_str(), to));
    shown = ::pclose(to) == 0;
  }
  static_cast<void>(std::signal(SIGPIPE, before));
  return shown;
}

// Shows a page with man(1) or the pager in the environment. Without either, prints the command's
// help.
void show_page(const Command& app, const std::vector<std::string>& words) {
  const ManualPage page = manual_page(app, words);
  if (::isatty(STDOUT_FILENO) != 1) return print_text(page.text);
  if (shown_by("command -v man >/dev/null 2>&1 && exec man -l - || exit 1", page.text)) return;
  std::string path = app.name;
  const Command* command = &app;
  for (const std::string& word : words) {
    path += " " + word;
    command = &*std::ranges::find(command->commands, word, &Command::name);
  }
  const std::string text = help_text(*command, path, terminal_columns(STDOUT_FILENO));
  if (!shown_by("exec ${PAGER:-less}", text)) print_text(text);
}

int run_man(const std::string& command, const std::string& sub, const std::string& directory) {
  Session session;
  const Command app = program(session);
  if (!directory.empty()) {
    for (const ManualPage& page : manual_pages(app)) write_page(directory, page);
    return 0;
  }
  std::vector<std::string> words;
  for (const std::string& word : {command, sub}) {
    if (!word.empty()) words.push_back(word);
  }
  show_page(app, words);
  return 0;
}

}  // namespace

Command completions_command() {
  const auto shell = std::make_shared<std::string>();
  Command out{
      .name = "completions",
      .summary = "print a shell's completion script",
      .description = {
          "An installed hfshard has them already. Otherwise put the script where your shell "
          "looks for it, as below."}};
  out.positionals = {
      {.name = "SHELL", .to = shell.get(), .choices = shell_names(), .help = "bash, zsh or fish"}};
  out.options = {help_option()};
  out.examples = {
      {"bash, for this session", "source <(hfshard completions bash)"},
      {"bash, for good",
       "hfshard completions bash >~/.local/share/bash-completion/completions/hfshard"},
      {"zsh, in a directory of your fpath", "hfshard completions zsh >~/.zfunc/_hfshard"},
      {"fish", "hfshard completions fish >~/.config/fish/completions/hfshard.fish"}};
  out.run = [shell] { return run_completions(*shell); };
  return out;
}

Command man_command() {
  const auto words = std::make_shared<std::pair<std::string, std::string>>();
  const auto directory = std::make_shared<std::string>();
  Command out{.name = "man",
              .summary = "print a manual page",
              .description = {"On a terminal, man(1) shows the page. Otherwise hfshard prints "
                              "troff."}};
  out.positionals = {{.name = "COMMAND",
                      .to = &words->first,
                      .required = false,
                      .help = "command of the page",
                      .standard = "hfshard itself"},
                     {.name = "SUBCOMMAND",
                      .to = &words->second,
                      .required = false,
                      .help = "command of a group such as mappings"}};
  out.options = {{.name = "--into",
                  .to = directory.get(),
                  .value = "DIR",
                  .offer = Offer::directory,
                  .help = "write all pages into this directory"},
                 help_option()};
  out.examples = {{"read the page of convert", "hfshard man convert"},
                  {"save it as text", "hfshard man convert | man -l - >convert.txt"},
                  {"read the page of mappings check", "hfshard man mappings check"}};
  out.run = [words, directory] { return run_man(words->first, words->second, *directory); };
  return out;
}

}  // namespace hfshard
