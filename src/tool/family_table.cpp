#include "tool/family_table.h"

#include <algorithm>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/help.h"
#include "tool/progress.h"
#include "tool/text_table.h"

namespace hfshard {
namespace {

// Returns the lines of the cell `verified against`.
std::vector<std::string> rights_of(const FamilyProof& proof) {
  std::vector<std::string> right;
  if (proof.by_maxtext > 0) right.push_back(fmt::format("MaxText {}", proof.by_maxtext));
  if (proof.by_own_oracle > 0) right.push_back(fmt::format("numpy {}", proof.by_own_oracle));
  std::vector<std::string> out;
  if (!right.empty()) out.push_back(join(right, ", "));
  if (proof.by_torchtitan > 0) out.push_back(fmt::format("torchtitan {}", proof.by_torchtitan));
  if (out.empty()) out.emplace_back("-");
  return out;
}

}  // namespace

void print_families(const std::vector<FamilySummary>& families) {
  const std::string usual = "stacked, separate";
  const bool alike = std::ranges::all_of(families, [&](const FamilySummary& family) {
    const bool maxtext = std::ranges::find(family.schemes, "maxtext") != family.schemes.end();
    return !maxtext || join(family.layers, ", ") == usual;
  });
  // Wraps a list of model types in its column if the columns before it leave enough room.
  constexpr std::size_t kBefore = 55;
  constexpr std::size_t kEnough = 24;
  const std::size_t columns = file_columns(STDOUT_FILENO);
  const bool folds = alike && columns >= kBefore + kEnough;
  std::vector<std::string> heading{"family", "mapped", "run", "verified against", "model types"};
  if (!alike) heading.insert(heading.begin() + 1, "layers");
  TextTable table(std::move(heading));
  for (const FamilySummary& family : families) {
    const FamilyProof& proof = family.proof;
    const std::vector<std::string> rights = rights_of(proof);
    std::vector<std::string> row{family.name, fmt::format("{}", proof.accounted),
                                 fmt::format("{}", proof.executed), rights.front()};
    if (!alike) row.insert(row.begin() + 1, join(family.layers, ", "));
    const std::string types = join(family.model_types, ", ");
    std::vector<std::string> lines =
        folds ? wrapped(types, columns - kBefore) : std::vector<std::string>{types};
    lines.resize(std::max(lines.size(), rights.size()));
    const std::size_t last = row.size() - 1;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) row.assign(last + 1, std::string());
      if (i < rights.size()) row[last] = rights[i];
      row.push_back(lines[i]);
      table.add(row);
    }
  }
  print_table(table, 0);
  const std::string words = fmt::format(
      "{}mapped: published models whose every element has a place; run: test checkpoints that "
      "hfshard converted and verified; verified against: how many of these are bit-equal to the "
      "output of MaxText's or torchtitan's converter, or of an independent one in numpy",
      alike ? "MaxText families have stacked or separate layers; " : "");
  for (const std::string& line : wrapped(words, columns)) print_line(line);
}

}  // namespace hfshard
