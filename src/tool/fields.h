#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

#include "hfshard/error.h"
#include "hfshard/report.h"

namespace hfshard {

/// A line of a report: its label, then text that wraps below itself.
struct Field {
  std::string label;
  std::string text;
};
std::vector<std::string> field_lines(const Field& field, std::size_t columns);
/// Prints a field on standard output, wrapped to the terminal.
void print_field(const Field& field);
void print_field(std::string_view label, const std::string& text);

/// Formats a count: `14022`, `752 M`, `671 B`.
std::string human_count(std::uint64_t count);

/// Adds `begin_bytes` and `end_bytes`, if the place in the file is known.
void add_range(const std::optional<ByteRange>& range, Json& out);

/// Reports the cost of loading, as text and as JSON.
std::vector<Field> load_fields(const LoadReport& load);
Json loads_json(const std::vector<LoadReport>& loads);

}  // namespace hfshard
