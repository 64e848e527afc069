#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

/// Rows of cells, printed in columns two blanks apart. The first row is the heading.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) { add(std::move(heading)); }
  /// A row may have fewer cells than the heading, never more.
  void add(std::vector<std::string> row);
  /// One line per row, each indented by `indent` blanks, without trailing blanks. Where that takes
  /// more than `columns`, a row's first cell has a line of its own and the others stand below it,
  /// still in columns, in as many lines as they need; what is longer than a line is elided.
  std::vector<std::string> lines(std::size_t indent = 2, std::size_t columns = SIZE_MAX / 2) const;

 private:
  void fold(const std::vector<std::string>& row, std::size_t indent, std::size_t columns,
            std::vector<std::string>& out) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

/// Prints one on standard output, in the columns that it has (file_columns).
void print_table(const TextTable& table, std::size_t indent);

/// Prints what is not empty of some texts behind `begin`, two blanks apart, in the columns that
/// standard output has: what does not fit goes to further lines, which begin further in.
void print_parts(std::string_view begin, const std::vector<std::string>& parts);
/// A text of at most `columns`: both ends, with `..` for what is between them.
std::string elided(std::string_view text, std::size_t columns);
/// `1 file`, `2 files`, `0 files`; `many` where it does not end in s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view many = {});

}  // namespace hfshard
