#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/tables/family.h"
#include "mutation/cases.h"

namespace hfshard::mutation {

/// The verdict on a mutant: the first check that refused it, if any.
enum class Verdict : std::uint8_t { equivalent, lint, accounting, oracle, survivor };
inline constexpr std::size_t kVerdicts = 5;

std::string_view to_string(Verdict verdict) noexcept;

struct Judgement {
  Verdict verdict = Verdict::survivor;
  std::string reason;  ///< the error, or the case and the leaf that differ
};

/// The checks of one family, for all of its mutants.
class Judge {
 public:
  explicit Judge(std::vector<Case> cases);
  ~Judge();

  const std::vector<Case>& cases() const noexcept { return cases_; }
  /// Runs the checks on a mutant, cheapest first: lint, accounting for the first examples, oracles,
  /// accounting for other examples. Only examples and oracles that use a rule of `touched` count.
  /// `touched` has pointers; empty means any rule.
  Judgement judge(const FamilyFile& mutant, const std::vector<std::string>& touched) const;

 private:
  struct Original;
  std::vector<std::size_t> in_order(const std::vector<std::string>& touched) const;

  std::vector<Case> cases_;
  std::vector<Original> originals_;  // parallel to cases_
};

}  // namespace hfshard::mutation
