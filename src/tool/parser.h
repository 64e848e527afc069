#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tool/options.h"

#include "hfshard/error.h"

namespace hfshard {

/// What a command line asks for.
struct Parsed {
  enum class Ask : std::uint8_t { run, help, version };
  Ask ask = Ask::run;
  const Command* command = nullptr;  ///< the one named last; the program if there is none
  std::string path;                  ///< how it is called: `hfshard mappings check`
  /// Options and positionals by name, `--jobs` and `OUT`, with the values that were typed.
  std::map<std::string, std::vector<std::string>> given;
  std::optional<Error> error;  ///< why nothing is to be done
};

/// Reads the words after the program's name, and writes what was given to the variables of the
/// tables.
Parsed parse(const Command& program, const std::vector<std::string>& words);

}  // namespace hfshard
