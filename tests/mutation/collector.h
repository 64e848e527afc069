#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mutation/mutants.h"

namespace hfshard::mutation {

/// Collects mutants. Skips those that change nothing or repeat another.
class Collector {
 public:
  explicit Collector(const Json& family) : family_(family) {}

  const Json& family() const noexcept { return family_; }
  void add(Kind kind, const Path& rule, std::vector<Edit> edits);
  /// Replaces one text.
  void set(Kind kind, const Path& rule, const Path& at, Json value);
  /// Removes one member.
  void remove(Kind kind, const Path& rule, const Path& at);
  std::vector<Mutant> take() && { return std::move(out_); }

 private:
  const Json& family_;
  std::vector<Mutant> out_;
  std::set<std::string> seen_;
};

/// Returns the path with one more key.
Path below(const Path& path, std::string key);
Path below(const Path& path, std::size_t index);

/// The kind of rules in an array.
enum class RuleForm : std::uint8_t { transfer, fill, drop };

/// A loop as its begin and end: `0` and `E`, `k` and `L`.
struct LoopText {
  std::string name;
  std::string begin;
  std::string end;
};
LoopText parse_loop(const std::string& name, const Json& range);

/// Shortens the loop by one, at either end.
void add_loop_mutants(Collector& out, const Path& rule, const Path& at, const LoopText& loop);
/// Mutates the expressions in the braces of a text at `at`: the next value, other constants.
void add_name_mutants(Collector& out, const Path& rule, const Path& at, const std::string& text);
/// Mutates an expression: the next value, other constants. It is [begin, end) of the text at `at`.
void add_index_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end);
/// Reverses the loop's values, and shifts each by one, wherever its name occurs between `begin` and
/// `end`.
void add_order_mutants(Collector& out, Kind kind, const Path& rule, const Path& at,
                       const std::string& text, std::size_t begin, std::size_t end,
                       const LoopText& loop);

/// Returns the expression with a name replaced. Empty if the name doesn't occur.
std::string with_name(const std::string& expression, const std::string& name,
                      const std::string& by);

/// Adds mutants of the rules of one list, alone and in pairs.
void add_list_mutants(Collector& out, const Path& list, RuleForm form);

}  // namespace hfshard::mutation
