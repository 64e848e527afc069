#include "tool/completions.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

void add_commands(const Command& group, const std::vector<std::string>& path, CommandPaths& out) {
  for (const Command& command : group.commands) {
    std::vector<std::string> below = path;
    below.push_back(command.name);
    out.emplace_back(below, &command);
    add_commands(command, below, out);
  }
}

// Returns the families or mesh axes; other kinds don't have words.
std::vector<std::string> words_of(Offer offer) {
  std::vector<std::string> out;
  if (offer == Offer::family) {
    for (const FamilySummary& family : list_mappings()) out.push_back(family.name);
  } else if (offer == Offer::axes) {
    out = mesh_axes();
  }
  return out;
}

Offer kind_of(Offer offer) {
  return offer == Offer::family || offer == Offer::axes ? Offer::nothing : offer;
}

}  // namespace

CommandPaths all_commands(const Command& program) {
  CommandPaths out;
  add_commands(program, {}, out);
  return out;
}

Offered offered(const Option& option) {
  return {kind_of(option.offer), option.choices.empty() ? words_of(option.offer) : option.choices,
          option.value.ends_with(",...")};
}

Offered offered(const Positional& positional) {
  return {kind_of(positional.offer),
          positional.choices.empty() ? words_of(positional.offer) : positional.choices, false};
}

std::string completions(const Command& program, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_completions(program);
    case Shell::zsh:
      return zsh_completions(program);
    case Shell::fish:
      return fish_completions(program);
  }
  return {};
}

}  // namespace hfshard
