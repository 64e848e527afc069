#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/load_reader.h"

namespace hfshard {

/// Dims of a part -> what the family calls them.
using DimNames = std::map<std::string, std::string, std::less<>>;

/// One entry of a `use`: a part of mappings/common.json, and how it is to be taken.
struct PartUse {
  std::string name;
  std::string entry;  ///< where it is used, as errors name it
  std::optional<JsonAt> part;
  std::string at;                 ///< prefix of the part's source names
  std::optional<std::string> to;  ///< prefix of its target names; absent: the part's own
  std::string when;               ///< condition of all its rules; empty: none
  DimNames dims;
  std::vector<std::string> only;  ///< its tensors whose rules are taken; empty: all
  std::vector<JsonAt> with;       ///< modifiers of all its rules
};

/// Tensor name -> `source name [pattern]`.
using TensorSides = std::map<std::string, std::string, std::less<>>;

/// What a rule is written with.
struct RuleWords {
  const Json* sources = nullptr;            ///< abbreviations of repositories
  std::vector<const TensorSides*> tensors;  ///< the first one that knows a name decides
  std::map<std::string, JsonAt, std::less<>> modifiers;
};

/// Reads an entry of a `use`: a text, or an object with the part's name and arguments.
/// Throws: bad_input (unknown part, with near names).
PartUse read_use(const JsonAt& at, const JsonAt& parts);

/// A block of rules with a prefix of their targets and modifiers in common, taken as a part is.
PartUse read_block(const JsonAt& at);

/// The part's tensors as a family that uses it sees them.
TensorSides part_tensors(const PartUse& use);

/// `text` with the part's dims under the family's names.
std::string renamed(std::string_view text, const DimNames& dims);

enum class ListKind { rules, fill, drop };

/// One rule, fill or drop, written out: [source, target, modifiers], [number, target, modifiers],
/// [source, modifiers]. Nothing if the use leaves it out.
struct ExpandedRule {
  Json json;
  bool exact = true;  ///< as it is written, so that its elements have pointers of their own
};
std::optional<ExpandedRule> expand_rule(const JsonAt& at, ListKind kind, const PartUse* use,
                                        const RuleWords& words);

/// `maxtext:layers/moe.py` with the abbreviation written out; a text or a list of texts.
Json expand_source(const Json& source, const Json* abbreviations);

}  // namespace hfshard
