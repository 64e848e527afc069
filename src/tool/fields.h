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

/// A line of a report: what it is about, then words that go on below themselves.
struct Field {
  std::string label;
  std::string text;
};
std::vector<std::string> field_lines(const Field& field, std::size_t columns);
/// On standard output, in the columns of the terminal.
void print_field(const Field& field);
void print_field(std::string_view label, const std::string& text);

/// `14022`, `752 M`, `671 B`.
std::string human_count(std::uint64_t count);

/// Where in a file, if that is known: `begin_bytes`, `end_bytes`.
void add_range(const std::optional<ByteRange>& range, Json& out);

/// What loading costs, for people and programs.
std::vector<Field> load_fields(const LoadReport& load);
Json loads_json(const std::vector<LoadReport>& loads);

}  // namespace hfshard
