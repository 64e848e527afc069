#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hfshard {

// What a person can type, as data. The command line is read, and help, completions and manual
// pages are written, from these alone.

/// The part of a command's help in which an option stands, in this order.
enum class Group : std::uint8_t { model, values, checkpoint, link, load, example, run, output };
/// Its heading: "Model".
std::string_view to_string(Group group) noexcept;

/// What a shell offers where a value is typed, unless there are choices.
enum class Offer : std::uint8_t { nothing, file, directory, file_or_directory, axes, family };

/// Where a value goes; the variable must outlive the parsing. `bool` is a flag without a value, a
/// vector takes one value each time the option is given.
using Variable =
    std::variant<std::monostate, bool*, std::string*, std::vector<std::string>*, std::uint64_t*,
                 unsigned*, std::optional<std::string>*, std::optional<std::uint64_t>*>;

/// One option of a command.
struct Option {
  std::string name;         ///< `--jobs`
  std::string letter = {};  ///< `-j`, or empty
  Variable to = {};         ///< none: `--help` and `--version`, which end the parsing
  std::string value = {};   ///< what stands for the value in help: `N`; no word for flags
  std::vector<std::string> choices = {};  ///< the values that there are
  bool open = false;                      ///< the choices are not all: the command checks the value
  Offer offer = Offer::nothing;
  std::uint64_t least = 0;  ///< of a number
  std::uint64_t most = INT64_MAX;
  Group group = Group::output;
  std::string help = {};      ///< without its default, no full stop
  std::string standard = {};  ///< the default in words; if empty, what the variable holds
};
using OptionTable = std::vector<Option>;

/// `-h, --help`.
Option help_option();

/// A word of the command line that is no option.
struct Positional {
  std::string name;  ///< `SOURCE`
  std::string* to = nullptr;
  bool required = true;
  std::vector<std::string> choices = {};
  Offer offer = Offer::nothing;
  std::string help = {};
  std::string standard = {};  ///< what stands for it if it is left out
};

/// A command line that works, and what it is for.
struct Example {
  std::string what;  ///< empty: it goes with the one before
  std::string line;  ///< as it is pasted: `hfshard convert SOURCE OUT`
};

/// A command, a group of commands, or the program.
struct Command {
  std::string name;
  std::string summary;                        ///< one line
  std::vector<std::string> description = {};  ///< paragraphs
  std::vector<Positional> positionals = {};
  OptionTable options = {};
  std::vector<Example> examples = {};
  std::vector<Command> commands = {};  ///< of a group
  std::function<int()> run = {};       ///< returns the exit status; keeps the variables alive
};

/// One table after the other.
OptionTable joined(std::initializer_list<OptionTable> tables);
/// The table without the options of these names, all of which it has.
OptionTable without(OptionTable table, std::initializer_list<std::string_view> names);
/// The options of these names, all of which it has, in the table's order.
OptionTable only(const OptionTable& table, std::initializer_list<std::string_view> names);

}  // namespace hfshard
