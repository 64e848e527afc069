#include "mutation/judge.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "mapping/resolve/family_info.h"
#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"

#include "hfshard/error.h"

namespace hfshard::mutation {
namespace {

constexpr std::array<std::string_view, kVerdicts> kVerdictNames = {
    "equivalent", "lint", "accounting", "oracle", "survivor"};
constexpr std::size_t kFirstExamples = 4;

// One tensor's part of a leaf, independent of rule and loop.
struct Move {
  std::uint32_t source = 0;
  IndexMap map;
  Value value;
  std::optional<BlockScale> form;
  std::uint32_t scales = 0;
  bool copy = false;
  friend bool operator==(const Move&, const Move&) = default;
};

// A constant's part of a leaf.
struct Constant {
  IndexMap map;
  double scalar = 0;
  friend bool operator==(const Constant&, const Constant&) = default;
};

// A part of a tensor that isn't written.
struct Loss {
  std::uint32_t source = 0;
  IndexMap map;
  std::optional<std::uint32_t> same_as;
  friend bool operator==(const Loss&, const Loss&) = default;
};

struct LeafContent {
  std::vector<Move> moves;
  std::vector<Constant> constants;
  friend bool operator==(const LeafContent&, const LeafContent&) = default;
};

auto order(const IndexMap& map) {
  return std::tuple(map.src_base, map.dst_base, map.digits.size(),
                    map.digits.empty() ? std::uint64_t{0} : map.digits[0].extent);
}

void add_moves(const Transfer& transfer, std::vector<Move>& out) {
  const IndexMap map = normalize(transfer.map);
  for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
    Move move;
    move.source = transfer.sources[s];
    move.map = map;
    std::size_t rest = s;
    for (std::size_t k = transfer.loops.size(); k-- > 0;) {
      const Loop& loop = transfer.loops[k];
      move.map.dst_base += rest % loop.extent * static_cast<std::uint64_t>(loop.dst_step);
      rest /= loop.extent;
    }
    move.value = transfer.value;
    move.copy = transfer.copy;
    if (transfer.decode) {
      move.form = transfer.decode->form;
      move.scales = transfer.decode->scales[s];
    }
    out.push_back(std::move(move));
  }
}

// Returns the content of each leaf, in a canonical order.
std::vector<LeafContent> contents(const CompiledModel& model) {
  std::vector<LeafContent> out(model.leaves.size());
  for (const Transfer& transfer : model.transfers) add_moves(transfer, out[transfer.target].moves);
  for (const Fill& fill : model.fills)
    out[fill.target].constants.push_back({normalize(fill.map), fill.scalar});
  for (LeafContent& leaf : out) {
    std::ranges::sort(leaf.moves, {},
                      [](const Move& move) { return std::tuple(move.source, order(move.map)); });
    std::ranges::sort(leaf.constants, {}, [](const Constant& one) { return order(one.map); });
  }
  return out;
}

std::vector<Loss> losses(const CompiledModel& model) {
  std::vector<Loss> out;
  for (const Drop& drop : model.drops)
    out.push_back({drop.source, normalize(drop.map), drop.same_as});
  std::ranges::sort(out, {}, [](const Loss& loss) {
    return std::tuple(loss.source, order(loss.map), loss.same_as);
  });
  const auto rest = std::ranges::unique(out);
  out.erase(rest.begin(), rest.end());
  return out;
}

bool same_leaf(const Leaf& a, const Leaf& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
}

// The difference between a mutant's model and the original's.
struct Difference {
  bool any = false;
  std::string wrong;  ///< the leaf that the oracle refuses
};

// A model in its form for comparison.
struct Content {
  std::vector<LeafContent> leaves;
  std::vector<Loss> losses;
};

Content content_of(const CompiledModel& model) { return {contents(model), losses(model)}; }

std::string wrong_leaf(const Case& one, const Content& original, const CompiledModel& model,
                       const Content& mutant) {
  for (std::uint32_t i = 0; i < model.leaves.size(); ++i) {
    if (mutant.leaves[i] == original.leaves[i]) continue;
    if (execute_leaf(one, model, i) != one.right[i]) return model.leaves[i].name;
  }
  for (const Drop& drop : model.drops) {
    if (drop.same_as && (*one.bytes)[drop.source] != (*one.bytes)[*drop.same_as])
      return one.catalog->tensors[drop.source].name;
  }
  return {};
}

Difference compare(const Case& one, const Content& original, const CompiledModel& model) {
  const bool same_tree = std::ranges::equal(model.leaves, one.original.leaves, same_leaf);
  if (!same_tree) return {true, one.has_oracle() ? "another tree" : ""};
  const Content mutant = content_of(model);
  Difference out;
  out.any = mutant.leaves != original.leaves || mutant.losses != original.losses;
  if (out.any && one.has_oracle()) out.wrong = wrong_leaf(one, original, model, mutant);
  return out;
}

std::string text_of(const Error& error) {
  return error.rule().empty() ? error.sentence() : error.rule() + ": " + error.sentence();
}

// Returns why lint or the loader refuses a family, or else its table.
std::variant<std::string, MappingTable> linted(const FamilyFile& mutant) {
  try {
    MappingTable table = load_table(mutant);
    std::vector<std::string> found = lint_table(table);
    if (!found.empty()) return std::move(found.front());
    return table;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    return text_of(error);
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  return kVerdictNames[static_cast<std::size_t>(verdict)];
}

struct Judge::Original {
  Content content;
  std::set<std::string, std::less<>> rules;  ///< pointers of rules in use
};

Judge::Judge(std::vector<Case> cases) : cases_(std::move(cases)) {
  for (const Case& one : cases_) {
    const CompiledModel& model = one.original;
    Original original;
    original.content = content_of(model);
    original.rules.insert(model.rules.begin(), model.rules.end());
    originals_.push_back(std::move(original));
  }
}

Judge::~Judge() = default;

std::vector<std::size_t> Judge::in_order(const std::vector<std::string>& touched) const {
  std::vector<std::size_t> examples;
  std::vector<std::size_t> oracles;
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    const auto used = [&](const std::string& rule) { return originals_[i].rules.contains(rule); };
    if (!touched.empty() && std::ranges::none_of(touched, used)) continue;
    (cases_[i].has_oracle() ? oracles : examples).push_back(i);
  }
  const std::size_t first = std::min(examples.size(), kFirstExamples);
  std::vector<std::size_t> out(examples.begin(),
                               examples.begin() + static_cast<std::ptrdiff_t>(first));
  out.insert(out.end(), oracles.begin(), oracles.end());
  out.insert(out.end(), examples.begin() + static_cast<std::ptrdiff_t>(first), examples.end());
  return out;
}

Judgement Judge::judge(const FamilyFile& mutant, const std::vector<std::string>& touched) const {
  const std::variant<std::string, MappingTable> found = linted(mutant);
  if (const auto* refused = std::get_if<std::string>(&found)) return {Verdict::lint, *refused};
  const MappingTable& table = std::get<MappingTable>(found);
  const Case* differs = nullptr;
  for (const std::size_t i : in_order(touched)) {
    const Case& one = cases_[i];
    try {
      const CompiledModel model = compile_model(*one.catalog, one.options, table);
      const Difference difference = compare(one, originals_[i].content, model);
      if (!difference.wrong.empty()) return {Verdict::oracle, one.name + ": " + difference.wrong};
      if (difference.any && differs == nullptr) differs = &one;
    } catch (const Error& error) {  // the compiler or the proof refuses it
      if (error.code() == ErrorCode::internal) throw;
      return {Verdict::accounting, one.name + ": " + text_of(error)};
    }
  }
  if (differs == nullptr) return {Verdict::equivalent, {}};
  return {Verdict::survivor, "differs in " + differs->name};
}

}  // namespace hfshard::mutation
