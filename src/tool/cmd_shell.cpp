#include <cstdio>
#include <memory>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/completions.h"
#include "tool/man.h"
#include "tool/values.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::vector<std::string> shell_names() { return {"bash", "zsh", "fish"}; }

int run_completions(const std::string& shell) {
  constexpr Shell kShells[] = {Shell::bash, Shell::zsh, Shell::fish};
  Session session;  // tables with variables of their own
  std::string text = completions(program(session), kShells[one_of(shell, shell_names(), "SHELL")]);
  text.pop_back();  // the last newline
  print_line(text);
  return 0;
}

void write_page(const std::string& directory, const ManualPage& page) {
  const std::string path = directory + "/" + page.name + ".1";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             &std::fclose);
  if (file == nullptr || std::fputs(page.text.c_str(), file.get()) < 0 ||
      std::fflush(file.get()) != 0)
    throw Error(ErrorCode::io, "the page cannot be written").in_file(path);
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
  std::string text = manual_page(app, words).text;
  text.pop_back();
  print_line(text);
  return 0;
}

}  // namespace

Command completions_command() {
  const auto shell = std::make_shared<std::string>();
  Command out{
      .name = "completions",
      .summary = "print the script with which a shell completes command lines",
      .description = {"What is installed has them already. Otherwise a shell reads them when "
                      "it starts, from the places below."}};
  out.positionals = {
      {.name = "SHELL", .to = shell.get(), .choices = shell_names(), .help = "bash, zsh or fish"}};
  out.options = {help_option()};
  out.examples = {
      {"in bash, for this session", "source <(hfshard completions bash)"},
      {"in bash, from now on",
       "hfshard completions bash >~/.local/share/bash-completion/completions/hfshard"},
      {"in zsh, with a directory of your fpath", "hfshard completions zsh >~/.zfunc/_hfshard"},
      {"in fish", "hfshard completions fish >~/.config/fish/completions/hfshard.fish"}};
  out.run = [shell] { return run_completions(*shell); };
  return out;
}

Command man_command() {
  const auto words = std::make_shared<std::pair<std::string, std::string>>();
  const auto directory = std::make_shared<std::string>();
  Command out{.name = "man", .summary = "print a manual page"};
  out.positionals = {{.name = "COMMAND",
                      .to = &words->first,
                      .required = false,
                      .help = "the command that it is of",
                      .standard = "hfshard itself"},
                     {.name = "SUBCOMMAND",
                      .to = &words->second,
                      .required = false,
                      .help = "of a group such as mappings"}};
  out.options = {{.name = "--into",
                  .to = directory.get(),
                  .value = "DIR",
                  .offer = Offer::directory,
                  .help = "write all pages to files of this directory instead"},
                 help_option()};
  out.examples = {{"read it", "hfshard man convert | man -l -"},
                  {"of a command of a group", "hfshard man mappings check"}};
  out.run = [words, directory] { return run_man(words->first, words->second, *directory); };
  return out;
}

}  // namespace hfshard
