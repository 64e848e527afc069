#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/tables/load_reader.h"

namespace hfshard {

/// Dims of a part -> their names in the family.
using DimNames = std::map<std::string, std::string, std::less<>>;

/// One entry of a `use`: a part of mappings/common.json and its arguments.
struct PartUse {
  std::string name;
  std::string entry;  ///< the place of use, for errors
  std::optional<JsonAt> part;
  std::string at;                 ///< prefix of the part's source names
  std::optional<std::string> to;  ///< for its target names; else own
  std::string when;               ///< condition of its rules, if any
  DimNames dims;
  std::vector<std::string> only;  ///< tensors to use; empty: all
  std::vector<JsonAt> with;       ///< modifiers of all its rules
};

/// Tensor name -> `source name [pattern]`.
using TensorSides = std::map<std::string, std::string, std::less<>>;

/// The definitions that rules refer to.
struct RuleWords {
  const Json* sources = nullptr;            ///< abbreviations of repositories
  std::vector<const TensorSides*> tensors;  ///< the first match counts
  std::map<std::string, JsonAt, std::less<>> modifiers;
};

/// Reads an entry of a `use`: a text, or an object with the part's name and arguments.
/// Throws: bad_input (unknown part, with similar names).
PartUse read_use(const JsonAt& at, const JsonAt& parts);

/// Reads a block of rules that share a target prefix and modifiers. It works like a part.
PartUse read_block(const JsonAt& at);

/// Returns the part's tensors with the family's names.
TensorSides part_tensors(const PartUse& use);

/// Replaces the part's dims in `text` with the family's names.
std::string renamed(std::string_view text, const DimNames& dims);

enum class ListKind { rules, fill, drop };

/// One expanded rule, fill or drop: [source, target, modifiers], [number, target, modifiers],
/// [source, modifiers].
struct ExpandedRule {
  Json json;
  bool exact = true;  ///< unchanged, so elements have pointers
};
/// Expands a rule. Empty if the use excludes it.
std::optional<ExpandedRule> expand_rule(const JsonAt& at, ListKind kind, const PartUse* use,
                                        const RuleWords& words);

/// Replaces the abbreviation in `maxtext:layers/moe.py`. The value is a text or a list of texts.
Json expand_source(const Json& source, const Json* abbreviations);

}  // namespace hfshard
