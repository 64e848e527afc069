#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tool/options.h"

#include "hfshard/error.h"

namespace hfshard {

/// The command that a command line calls, and its arguments.
struct Parsed {
  enum class Ask : std::uint8_t { run, help, version };
  Ask ask = Ask::run;
  const Command* command = nullptr;  ///< the last command named, or the program
  std::string path;                  ///< the words that call it
  /// The options and positionals, `--jobs` and `OUT`, with the values that the user typed.
  std::map<std::string, std::vector<std::string>> given;
  std::optional<Error> error;  ///< why the program ends here
};

/// Parses the words after the program's name, and writes the values to the tables' variables.
Parsed parse(const Command& program, const std::vector<std::string>& words);

}  // namespace hfshard
