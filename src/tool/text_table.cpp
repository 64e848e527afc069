#include "tool/text_table.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {

void TextTable::add(std::vector<std::string> row) {
  if (rows_.empty()) widths_.resize(row.size());
  HFSHARD_CHECK(row.size() <= widths_.size());
  for (std::size_t i = 0; i < row.size(); ++i)
    widths_[i] = std::max(widths_[i], display_width(row[i]));
  rows_.push_back(std::move(row));
}

std::vector<std::string> TextTable::lines(std::size_t indent) const {
  std::vector<std::string> out;
  out.reserve(rows_.size());
  for (const std::vector<std::string>& row : rows_) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths_[i] - display_width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace hfshard
