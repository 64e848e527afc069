#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tool/options.h"

namespace hfshard {

/// A manual page of section 1, in troff with the macros of man(7).
struct ManualPage {
  std::string name;  ///< `hfshard-mappings-check`, also of its file, with `.1`
  std::string text;
};

/// The page of a command that is called by these words; of the program if there are none.
ManualPage manual_page(const Command& program, const std::vector<std::string>& words);
/// All pages: the program's, then each command's.
std::vector<ManualPage> manual_pages(const Command& program);

}  // namespace hfshard
