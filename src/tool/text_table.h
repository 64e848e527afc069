#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

/// A table of rows, printed in columns two spaces apart. The first row is the heading.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) { add(std::move(heading)); }
  /// Adds a row with at most as many cells as the heading.
  void add(std::vector<std::string> row);
  /// Returns a line for each row, indented by `indent` spaces, without trailing spaces. If a row
  /// needs more than `columns`, its first cell gets its own line, and the other cells stand below
  /// it, still in columns. A cell that is longer than a line is elided. Without a bound (a pipe), a
  /// few long cells run over their column instead of widening it.
  std::vector<std::string> lines(std::size_t indent = 2, std::size_t columns = SIZE_MAX / 2) const;

 private:
  /// Returns widths that fit nine of ten cells of each column.
  std::vector<std::size_t> usual_widths() const;
  void fold(const std::vector<std::string>& row, std::size_t indent, std::size_t columns,
            std::vector<std::string>& out) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

/// Prints the table on standard output, for its width (file_columns).
void print_table(const TextTable& table, std::size_t indent);

/// Prints the nonempty texts after `begin`, two spaces apart, for the width of standard output.
/// Texts that don't fit go to further lines with more indentation.
void print_parts(std::string_view begin, const std::vector<std::string>& parts);
/// Shortens a text to `columns`: keeps both ends, with `..` between them.
std::string elided(std::string_view text, std::size_t columns);
/// Returns `1 file`, `2 files`, `0 files`. `many`: a plural that doesn't end in s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view many = {});

}  // namespace hfshard
