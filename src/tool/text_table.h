#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hfshard {

/// Rows of cells, printed in columns two blanks apart. The first row is the heading.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) { add(std::move(heading)); }
  /// A row may have fewer cells than the heading, never more.
  void add(std::vector<std::string> row);
  /// One line per row, each indented by `indent` blanks, without trailing blanks.
  std::vector<std::string> lines(std::size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace hfshard
