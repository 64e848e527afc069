#include "tool/habits.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "tool/habit_tables.h"
#include "tool/habit_values.h"
#include "tool/help.h"
#include "tool/mesh_words.h"

namespace hfshard {
namespace {

using Words = std::vector<std::string>;

// Normalizes an option for comparison: `--scan_layers` and `--Scan-Layers` become `--scan-layers`.
std::string plain_name(std::string_view typed) {
  if (!typed.starts_with("--")) return std::string(typed);
  std::string out = lower_case(typed);
  std::ranges::replace(out, '_', '-');
  return out;
}

template <std::size_t n>
const habit::Other* find_in(const habit::Other (&list)[n], std::string_view typed) {
  const auto* found = std::ranges::find(list, typed, &habit::Other::typed);
  return found == std::end(list) ? nullptr : found;
}

template <std::size_t n>
bool is_in(const std::string_view (&list)[n], std::string_view typed) {
  return std::ranges::find(list, typed) != std::end(list);
}

const Option* option_of(const Command& command, std::string_view typed) {
  const auto found = std::ranges::find_if(command.options, [&](const Option& option) {
    return option.name == typed || (!option.letter.empty() && option.letter == typed);
  });
  return found == command.options.end() ? nullptr : &*found;
}

bool takes_value(const Option& option) {
  return !std::holds_alternative<bool*>(option.to) &&
         !std::holds_alternative<std::monostate>(option.to);
}

bool has_positional(const Command& command, std::string_view name) {
  return std::ranges::find(command.positionals, name, &Positional::name) !=
         command.positionals.end();
}

// Returns what a person means by `true`, `0` or `flase`. Nothing for other words.
std::optional<bool> truth_of(std::string_view value) {
  const std::string small = lower_case(value);
  for (const char* yes : {"true", "1", "yes", "on"})
    if (small == yes) return true;
  for (const char* no : {"false", "0", "no", "off"})
    if (small == no) return false;
  const Words near = meant_names(small, {"true", "false"});
  return near.size() == 1 ? std::optional(near.front() == "true") : std::nullopt;
}

// Translates the words after a command.
class Rewriter {
 public:
  Rewriter(const Command& command, Words rest) : command_(command), rest_(std::move(rest)) {}

  // Whether any word has changed.
  bool run() {
    while (at_ < rest_.size()) {
      const std::string word = rest_[at_++];
      if (word == "--") {
        kept_.push_back(word);
        kept_.insert(kept_.end(), rest_.begin() + static_cast<std::ptrdiff_t>(at_), rest_.end());
        break;
      }
      if (word.size() > 1 && word.starts_with('-')) {
        option(word);
      } else {
        plain(word);
      }
    }
    return changed_;
  }
  Words words() const {
    Words out = kept_;
    // Where the first argument is, and the end of the arguments.
    std::size_t first = places_.empty() ? 0 : places_.front();
    std::size_t end = places_.empty() ? 0 : first == 0 ? leading_places(out) : places_.back() + 1;
    const auto at = [&](std::size_t index) {
      return out.begin() + static_cast<std::ptrdiff_t>(index);
    };
    if (!source_.empty()) {
      if (end != 0 && command_.positionals.front().name == "OUT") ++first;  // as `verify` has it
      out.insert(at(first), source_);
      ++end;
    }
    if (!mesh_.empty()) {
      const auto given = std::ranges::find(out, "--mesh");  // one mesh has all axes
      if (given != out.end() && given + 1 != out.end()) {
        *(given + 1) += "," + join(mesh_, ",");
      } else {
        out.insert(out.end(), {"--mesh", join(mesh_, ",")});
      }
    }
    if (!out_.empty()) out.insert(at(end), out_);
    return out;
  }

 private:
  // Counts the arguments before the options. A person writes OUT after them.
  static std::size_t leading_places(const Words& words) {
    const auto option =
        std::ranges::find_if(words, [](const std::string& word) { return word.starts_with("-"); });
    return static_cast<std::size_t>(option - words.begin());
  }

  void plain(const std::string& word) {
    const std::size_t sign = word.find('=');
    const std::string name = "--" + word.substr(0, sign);
    const bool scans = sign != std::string::npos && option_of(command_, "--layers") != nullptr &&
                       plain_name(name) == "--scan-layers";  // MaxText's spelling
    if (scans && scan_layers(word.substr(sign + 1))) return;
    places_.push_back(kept_.size());
    kept_.push_back(word);
  }

  void option(const std::string& word) {
    const std::size_t sign = word.find('=');
    const std::string typed = word.substr(0, sign);
    value_ = sign == std::string::npos ? std::nullopt : std::optional(word.substr(sign + 1));
    if (const Option* known = option_of(command_, typed)) {
      keep(word, *known);
    } else if (!other(plain_name(typed))) {
      kept_.push_back(word);
    }
  }

  void keep(const std::string& word, const Option& option) {
    if (!takes_value(option)) return kept_.push_back(word);
    const auto value = take_value();
    if (!value) return kept_.push_back(word);
    const auto* meant = std::ranges::find_if(habit::kValues, [&](const habit::Value& each) {
      return each.option == option.name && each.typed == lower_case(*value);
    });
    if (meant != std::end(habit::kValues)) return write(meant->meant);
    std::string is = *value;
    if (option.name == "--mesh" || option.name == "--load-mesh") {
      const bool two = !axis_of(lower_case(*value)).empty() && at_ < rest_.size() &&
                       parse_whole(rest_[at_]).has_value();  // `fsdp 16`
      is = mesh_of(two ? *value + "=" + rest_[at_++] : *value);
    }
    if (option.name == "--dtype" && option.choices.size() > 1) {
      const Words near = meant_names(*value, option.choices);
      if (near.size() == 1) is = near.front();
    }
    changed_ = changed_ || is != *value;
    kept_.insert(kept_.end(), {option.name, is});
  }

  // Translates an option that the command lacks. Returns whether it knows the option.
  bool other(const std::string& name) {
    if (const Option* known = option_of(command_, name)) {  // `--max_memory`
      changed_ = true;
      keep(name, *known);
      return true;
    }
    return as_flag(name) || as_axis(name) || as_place(name) || as_renamed(name);
  }

  bool as_flag(const std::string& name) {
    if (name == "--scan-layers" && option_of(command_, "--layers") != nullptr) {
      const bool follows = !value_ && at_ < rest_.size() && truth_of(rest_[at_]);
      return scan_layers(value_ || follows ? take_value().value_or("") : "true");
    }
    const habit::Other* found = find_in(habit::kFlags, name);
    if (found == nullptr) return false;
    const std::string first(found->meant.substr(0, found->meant.find(' ')));
    const bool forces = first == "--overwrite";  // allowed without an OUT
    if (!first.empty() && option_of(command_, first) == nullptr && !forces) return false;
    if (option_of(command_, first) != nullptr) return write(found->meant), true;
    changed_ = true;
    return true;
  }

  bool as_axis(const std::string& name) {
    const std::string axis = name.starts_with("--") ? axis_of(name.substr(2)) : std::string();
    if (axis.empty() || option_of(command_, "--mesh") == nullptr) return false;
    const std::size_t before = at_;
    const auto value = take_value();
    if (!value || !parse_whole(*value)) {
      at_ = before;
      return false;
    }
    mesh_.push_back(axis + "=" + *value);
    changed_ = true;
    return true;
  }

  bool as_place(const std::string& name) {
    if (command_.positionals.empty()) return false;
    const bool is_source = is_in(habit::kSources, name);
    const bool is_out = is_in(habit::kOuts, name) && has_positional(command_, "OUT") &&
                        command_.positionals.size() > 1;
    if (!is_source && !is_out) return false;
    const auto value = take_value();
    if (!value) return false;
    (is_source ? source_ : out_) = *value;
    changed_ = true;
    return true;
  }

  bool as_renamed(const std::string& name) {
    const habit::Other* found = find_in(habit::kRenamed, name);
    const Option* option = found == nullptr ? nullptr : option_of(command_, found->meant);
    if (option == nullptr) return false;
    changed_ = true;
    keep(option->name, *option);
    return true;
  }

  // Returns false if the value says neither yes nor no.
  bool scan_layers(std::string_view value) {
    const auto scans = truth_of(value);
    if (scans) write(*scans ? "--layers stacked" : "--layers separate");
    return scans.has_value();
  }

  // Returns the value after `=`, or else the next word.
  std::optional<std::string> take_value() {
    if (value_) return std::exchange(value_, std::nullopt);
    if (at_ == rest_.size()) return std::nullopt;
    return rest_[at_++];
  }

  void write(std::string_view words) {
    for (std::string& word : split(words, ' ')) kept_.push_back(std::move(word));
    changed_ = true;
  }

  const Command& command_;
  Words rest_;
  std::size_t at_ = 0;
  std::optional<std::string> value_;  // the current option's, after `=`
  Words kept_;
  std::vector<std::size_t> places_;  // the arguments among them
  std::vector<std::string> mesh_;
  std::string source_;
  std::string out_;
  bool changed_ = false;
};

const Command* find_command(const Command& program, const Words& words, std::size_t& at) {
  const Command* out = &program;
  while (at < words.size() && !out->commands.empty()) {
    const auto found = std::ranges::find(out->commands, words[at], &Command::name);
    if (found == out->commands.end()) return nullptr;
    out = &*found;
    ++at;
  }
  return out->commands.empty() ? out : nullptr;
}

// Returns whether a word looks like a checkpoint rather than a command.
bool is_place(const std::string& word) {
  std::error_code error;
  return !word.starts_with('-') &&
         (word.find('/') != std::string::npos || std::filesystem::exists(word, error));
}

// Translates another program's command. Returns whether it knows the command.
bool rename_command(const Command& program, Words& words) {
  const auto is_command = [&](const std::string& word) {
    return std::ranges::find(program.commands, word, &Command::name) != program.commands.end();
  };
  if (words.empty() || is_command(words[0])) return false;
  if (words.size() > 1 && is_command(words[1]) &&
      (words[0] == program.name || is_place(words[0]))) {
    if (words[0] == program.name)
      words.erase(words.begin());
    else
      std::swap(words[0], words[1]);
    return true;
  }
  const habit::Other* found = find_in(habit::kCommands, words[0]);
  if (found == nullptr && is_place(words[0])) {  // only the command is missing
    words.insert(words.begin(),
                 words.size() > 1 && !words[1].starts_with('-') ? "convert" : "inspect");
    return true;
  }
  if (found == nullptr) return false;
  Words meant = split(found->meant, ' ');
  if (words.size() == 1 && is_in(habit::kAsksWhatThereIs, words[0])) meant = {"mappings", "list"};
  words.erase(words.begin());
  const auto option = std::ranges::find_if(meant, [](const auto& w) { return w.starts_with('-'); });
  words.insert(words.end(), option, meant.end());
  words.insert(words.begin(), meant.begin(), option);
  return true;
}

std::string shell_line(const Command& program, const Words& words) {
  Words out{program.name};
  for (const std::string& word : words) out.push_back(shell_word(word));
  return join(out, " ");
}

// Returns the advice for the first option that hfshard replaces by other means, or an empty text.
std::string_view had_otherwise(const Command& command, const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t sign = word.find('=');
    const std::string name = plain_name(std::string_view(word).substr(0, sign));
    const std::string value = sign != std::string::npos ? word.substr(sign + 1)
                              : i + 1 < words.size()    ? words[i + 1]
                                                        : std::string();
    const auto* elsewhere = std::ranges::find_if(habit::kElsewhere, [&](const habit::Value& each) {
      return each.option == name && each.typed == lower_case(value);
    });
    if (elsewhere != std::end(habit::kElsewhere)) return elsewhere->meant;
    const habit::Other* found = find_in(habit::kOtherwise, name);
    if (found != nullptr && option_of(command, name) == nullptr) return found->meant;
  }
  return {};
}

// Returns ORG/NAME for the NAME of a well-known model, or an empty text.
std::string with_organization(const std::string& word) {
  std::error_code ignored;
  if (word.find_first_of("/\\") != std::string::npos || std::filesystem::exists(word, ignored))
    return {};
  const std::string small = lower_case(word);
  const auto* found = std::ranges::find_if(habit::kOrganizations, [&](const habit::Other& each) {
    return small.starts_with(each.typed);
  });
  if (found == std::end(habit::kOrganizations)) return {};
  return fmt::format("{}/{}", found->meant, word);
}

// Returns ORG/NAME for `ORG/NAME/`, as after a completed directory, or an empty text.
std::string without_slash(const std::string& word) {
  if (!word.ends_with('/')) return {};
  std::string name = word.substr(0, word.size() - 1);
  std::error_code ignored;
  const bool is_name = std::ranges::count(name, '/') == 1 && !name.starts_with('.') &&
                       !name.starts_with('/') && !name.ends_with('/');
  return is_name && !std::filesystem::exists(name, ignored) ? name : std::string();
}

// Returns the line with the full name of a model that wasn't found, or an empty text.
std::string line_of_model(const Command& program, const Words& words, const Error& error) {
  const bool fetches = error.code() == ErrorCode::usage && !words.empty() && words[0] == "fetch";
  if (error.code() != ErrorCode::not_found && !fetches) return {};
  Words line = words;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (!fetches && line[i] != error.file()) continue;
    std::string whole = without_slash(line[i]);
    if (whole.empty()) whole = with_organization(line[i]);
    if (whole.empty()) continue;
    line[i] = std::move(whole);
    return shell_line(program, line);
  }
  return {};
}

constexpr const char* kRecord = "hfshard.json";

// Returns whether a directory, or one in it, has hfshard's record.
bool has_record(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / kRecord, ignored)) return true;
  const std::filesystem::directory_iterator entries(directory, ignored);
  return std::any_of(begin(entries), end(entries), [&](const auto& entry) {
    return std::filesystem::exists(entry.path() / kRecord, ignored);
  });
}

// Returns `verify OUT SOURCE` for swapped arguments, or an empty text.
std::string line_in_order(const Command& program, const Words& words, const Error& error) {
  const bool lacks_record = error.code() == ErrorCode::not_found && words.size() >= 3 &&
                            words[0] == "verify" && error.file() == words[1] &&
                            error.sentence().starts_with(fmt::format("no {}", kRecord));
  if (!lacks_record || !has_record(words[2])) return {};
  Words line = words;
  std::swap(line[1], line[2]);
  return shell_line(program, line);
}

// Joins axes of --mesh that are words of their own, as in `--mesh fsdp=8 tp=2`.
Words with_one_mesh(const Words& words) {
  Words out;
  for (const std::string& word : words) {
    const bool goes_on = out.size() >= 2 && out[out.size() - 2] == "--mesh" && is_axis(word) &&
                         is_axis(out.back().substr(out.back().rfind(',') + 1));
    if (goes_on) {
      out.back() += ',' + word;
    } else {
      out.push_back(word);
    }
  }
  return out;
}

// Returns whether a translated line still can't work. Its command can be unknown, it can have too
// many arguments, and an option can lack its value.
bool is_no_better(const Command* known, const Words& words, std::size_t at) {
  if (known == nullptr) return at < words.size() && !words[at].starts_with('-');
  const Command& command = *known;
  std::size_t places = 0;
  for (; at < words.size(); ++at) {
    const Option* option = option_of(command, words[at]);
    if (option == nullptr) {
      places += !words[at].starts_with('-');
      continue;
    }
    if (!takes_value(*option)) continue;
    const bool is_of_mesh = option->name == "--mesh" || option->name == "--load-mesh";
    if (++at == words.size() || (is_of_mesh && !is_mesh(words[at]))) return true;
  }
  return places > command.positionals.size();
}

Error with_hint(const Error& error, const std::string& hint) {
  Error out(error.code(), error.sentence());
  if (!error.file().empty()) out.in_file(error.file());
  return out.hint(hint);
}

}  // namespace

std::optional<Words> meant_words(const Command& program, const Words& words) {
  Words line = with_one_mesh(words);
  bool changed = line != words;
  changed = rename_command(program, line) || changed;
  std::size_t at = 0;
  if (const Command* command = find_command(program, line, at)) {
    Rewriter rewriter(*command, {line.begin() + static_cast<std::ptrdiff_t>(at), line.end()});
    if (rewriter.run()) {
      changed = true;
      const Words rest = rewriter.words();
      line.resize(at);
      line.insert(line.end(), rest.begin(), rest.end());
    }
  }
  if (!changed) return std::nullopt;
  return line;
}

Error with_meant_line(const Command& program, const Words& words, const Error& error) {
  if (const std::string line = line_of_model(program, words, error); !line.empty())
    return with_hint(error, "did you mean the Hub model? " + line);
  if (const std::string line = line_in_order(program, words, error); !line.empty())
    return with_hint(error, "write OUT before SOURCE: " + line);
  if (error.code() != ErrorCode::usage) return error;
  if (words.size() == 1 && (words[0] == "-v" || words[0] == "--verbose"))
    return with_hint(error, "did you mean: hfshard --version");
  std::string hint;
  std::size_t at = 0;
  if (const Command* command = find_command(program, words, at))
    hint = had_otherwise(*command, words);
  if (const auto meant = hint.empty() ? meant_words(program, words) : std::nullopt) {
    at = 0;
    const Command* command = find_command(program, *meant, at);
    if (is_no_better(command, *meant, at)) return error;
    const bool bare = command != nullptr && at == meant->size() && !command->positionals.empty() &&
                      command->positionals.front().required;
    hint = "did you mean: " +
           (bare ? usage_line(*command, shell_line(program, *meant)) : shell_line(program, *meant));
  }
  return hint.empty() ? error : with_hint(error, hint);
}

}  // namespace hfshard
