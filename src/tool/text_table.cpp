#include "tool/text_table.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/progress.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kHang = 2;  // below the first cell
constexpr std::string_view kElision = "..";
constexpr std::size_t kUnbounded = 100000;  // more than any terminal has
constexpr std::size_t kOutlier = 16;        // columns beyond the usual width

void put_cell(std::string& line, const std::string& cell, std::size_t width, bool last) {
  line += cell;
  if (last) return;
  const std::size_t taken = display_width(cell);
  line.append(width - std::min(width, taken) + kGap, ' ');
}

void trim(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

void TextTable::add(std::vector<std::string> row) {
  if (rows_.empty()) widths_.resize(row.size());
  HFSHARD_CHECK(row.size() <= widths_.size());
  for (std::string& cell : row) cell = printable(cell);
  for (std::size_t i = 0; i < row.size(); ++i)
    widths_[i] = std::max(widths_[i], display_width(row[i]));
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> TextTable::usual_widths() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    std::vector<std::size_t> cells;
    for (const std::vector<std::string>& row : rows_) {
      if (i < row.size()) cells.push_back(display_width(row[i]));
    }
    std::ranges::sort(cells);
    const std::size_t usual = cells.empty() ? 0 : cells[(cells.size() - 1) * 9 / 10];
    out.push_back(widths_[i] > usual + kOutlier ? usual : widths_[i]);
  }
  return out;
}

std::vector<std::string> TextTable::lines(std::size_t indent, std::size_t columns) const {
  std::size_t total = indent;
  for (const std::size_t width : widths_) total += width + kGap;
  // Without a bound, one long name would pad all other rows.
  const std::vector<std::size_t> widths = columns >= kUnbounded ? usual_widths() : widths_;
  const bool fits = total <= columns + kGap;
  std::vector<std::string> out;
  for (const std::vector<std::string>& row : rows_) {
    if (!fits) {
      fold(row, indent, columns, out);
      continue;
    }
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i)
      put_cell(line, row[i], widths[i], i + 1 == row.size());
    trim(line);
    out.push_back(std::move(line));
  }
  return out;
}

void TextTable::fold(const std::vector<std::string>& row, std::size_t indent, std::size_t columns,
                     std::vector<std::string>& out) const {
  const std::size_t hang = indent + kHang;
  const std::size_t room = columns - std::min(columns - 1, hang);
  out.push_back(std::string(indent, ' ') + elided(row[0], columns - std::min(columns - 1, indent)));
  std::string line(hang, ' ');
  for (std::size_t i = 1; i < row.size(); ++i) {
    const std::size_t width = std::min(widths_[i], room);
    if (line.size() > hang && line.size() + width > columns) {
      trim(line);
      out.push_back(std::exchange(line, std::string(hang, ' ')));
    }
    put_cell(line, elided(row[i], room), width, false);
  }
  trim(line);
  if (!line.empty()) out.push_back(std::move(line));
}

void print_table(const TextTable& table, std::size_t indent) {
  for (const std::string& line : table.lines(indent, file_columns(STDOUT_FILENO))) print_line(line);
}

void print_parts(std::string_view begin, const std::vector<std::string>& parts) {
  constexpr std::string_view kFurther = "     ";
  const std::size_t columns = file_columns(STDOUT_FILENO);
  std::string line(begin);
  bool is_first = true;  // of its line
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!is_first && display_width(line) + kGap + display_width(part) > columns) {
      print_line(line);
      line = kFurther;
      is_first = true;
    }
    line.append(is_first ? 0 : kGap, ' ') += part;
    is_first = false;
  }
  print_line(line);
}

std::string elided(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  const std::size_t kept = columns - std::min(columns, kElision.size());
  std::size_t front = 0;
  for (std::size_t next = 0; display_width(text.substr(0, next)) <= kept / 2;
       next += decode_utf8(text.substr(next)).bytes) {
    front = next;
  }
  std::size_t back = front;
  while (display_width(text.substr(back)) > kept - kept / 2)
    back += decode_utf8(text.substr(back)).bytes;
  return fmt::format("{}{}{}", text.substr(0, front), kElision.substr(0, columns),
                     text.substr(back));
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace hfshard
