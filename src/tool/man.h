#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tool/options.h"

namespace hfshard {

/// A manual page of section 1, in troff with the macros of man(7).
struct ManualPage {
  std::string name;  ///< `hfshard-mappings-check`, without `.1`
  std::string text;
};

/// Returns the page of the command with these words, or of the program without words.
ManualPage manual_page(const Command& program, const std::vector<std::string>& words);
/// Returns all pages: the program's, then each command's.
std::vector<ManualPage> manual_pages(const Command& program);

}  // namespace hfshard
