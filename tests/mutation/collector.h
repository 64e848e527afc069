#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mutation/mutants.h"

namespace hfshard::mutation {

/// Mutants while they are made: those that change nothing or repeat another are left out.
class Collector {
 public:
  explicit Collector(const Json& family) : family_(family) {}

  const Json& family() const noexcept { return family_; }
  void add(Kind kind, const Path& rule, std::vector<Edit> edits);
  /// One text in place of another.
  void set(Kind kind, const Path& rule, const Path& at, Json value);
  /// One member less.
  void remove(Kind kind, const Path& rule, const Path& at);
  std::vector<Mutant> take() && { return std::move(out_); }

 private:
  const Json& family_;
  std::vector<Mutant> out_;
  std::set<std::string> seen_;
};

/// The path with one more key.
Path below(const Path& path, std::string key);
Path below(const Path& path, std::size_t index);

/// What an array of rules holds.
enum class RuleForm : std::uint8_t { transfer, fill, drop };

/// A loop as its beginning and end: `0` and `E`, `k` and `L`.
struct LoopText {
  std::string name;
  std::string begin;
  std::string end;
};
LoopText parse_loop(const std::string& name, const Json& range);

/// The loop over one less, from either end.
void add_loop_mutants(Collector& out, const Path& rule, const Path& at, const LoopText& loop);
/// The expressions in the braces of a text at `at`: the next value, other constants.
void add_name_mutants(Collector& out, const Path& rule, const Path& at, const std::string& text);
/// An expression: the next value, other constants. `span` is where it stands in the text at `at`.
void add_index_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end);
/// The loop's values in the reverse order, and each one further, wherever its name occurs between
/// `begin` and `end`.
void add_order_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end,
                       const LoopText& loop);

/// The expression with a name replaced; empty if the name does not occur.
std::string with_name(const std::string& expression, const std::string& name,
                      const std::string& by);

/// Mutants of the rules of one list, one by one and in pairs.
void add_list_mutants(Collector& out, const Path& list, RuleForm form);

}  // namespace hfshard::mutation
