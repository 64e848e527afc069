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

// The options of commands, as data. The parser, help, completions and manual pages all follow from
// these tables.

/// The part of a command's help that lists an option, in this order.
enum class Group : std::uint8_t { model, values, checkpoint, link, load, example, run, output };
/// Returns the heading of a group: "Model".
std::string_view to_string(Group group) noexcept;

/// The completions that a shell offers for a value without choices.
enum class Offer : std::uint8_t { nothing, file, directory, file_or_directory, axes, family };

/// The variable for a value; it must outlive the parsing. `bool` is a flag without a value. A
/// vector takes one value each time the option is given.
using Variable =
    std::variant<std::monostate, bool*, std::string*, std::vector<std::string>*, std::uint64_t*,
                 unsigned*, std::optional<std::string>*, std::optional<std::uint64_t>*>;

/// One option of a command.
struct Option {
  std::string name;                       ///< `--jobs`
  std::string letter = {};                ///< `-j`, or empty
  Variable to = {};                       ///< empty: `--help`, `--version`; end the parsing
  std::string value = {};                 ///< placeholder in help: `N`; empty for flags
  std::vector<std::string> choices = {};  ///< the values that it accepts
  bool open = false;                      ///< the command checks other values
  Offer offer = Offer::nothing;
  std::uint64_t least = 0;  ///< of a number
  std::uint64_t most = INT64_MAX;
  Group group = Group::output;
  std::string help = {};      ///< without its default, no full stop
  std::string standard = {};  ///< default in words; empty: the variable's value
};
using OptionTable = std::vector<Option>;

/// `-h, --help`.
Option help_option();

/// A positional argument.
struct Positional {
  std::string name;  ///< `SOURCE`
  std::string* to = nullptr;
  bool required = true;
  std::vector<std::string> choices = {};
  Offer offer = Offer::nothing;
  std::string help = {};
  std::string standard = {};  ///< the value if it is left out
};

/// A working command line and its purpose.
struct Example {
  std::string what;  ///< empty: belongs to the one before
  std::string line;  ///< pasteable: `hfshard convert SOURCE OUT`
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
  std::function<int()> run = {};       ///< returns the exit status; owns the variables
};

/// Returns the tables joined in order.
OptionTable joined(std::initializer_list<OptionTable> tables);
/// Returns the table without these options, all of which it must have.
OptionTable without(OptionTable table, std::initializer_list<std::string_view> names);
/// Returns only these options, all of which the table must have, in its order.
OptionTable only(const OptionTable& table, std::initializer_list<std::string_view> names);

}  // namespace hfshard
