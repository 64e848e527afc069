#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/bindings.h"
#include "mapping/pattern.h"
#include "mapping/table.h"

namespace hfshard {

/// A counter that advances through a leaf: a stack axis or a loop that is an axis of the leaf.
struct ResolvedLoop {
  std::string dim;  ///< empty for a stack axis
  std::uint64_t extent = 1;
  std::uint64_t target_step = 0;  ///< elements of the leaf
};

/// One rule with numbers, for one leaf.
struct ResolvedRule {
  const Rule* rule = nullptr;
  std::string target;                ///< dotted path of the leaf
  std::vector<std::string> sources;  ///< row-major over loops, outermost first
  std::vector<ResolvedLoop> loops;
  LaidOutPattern source_layout;
  LaidOutPattern target_layout;   ///< of the whole leaf
  std::vector<std::string> axes;  ///< per axis of the leaf
  std::vector<bool> stacked;
};

/// One fill with numbers, for one leaf.
struct ResolvedFill {
  const FillRule* rule = nullptr;
  std::string target;
  std::vector<ResolvedLoop> loops;
  LaidOutPattern layout;
  std::vector<std::string> axes;
  std::vector<bool> stacked;
};

/// One drop with numbers; there is none of a region without elements. Names may hold `*`.
struct ResolvedDrop {
  const DropRule* rule = nullptr;
  std::vector<std::string> sources;
  std::vector<std::string> same_as;  ///< parallel to sources, or empty
  LaidOutPattern layout;             ///< unused when the pattern is [*]
};

/// A renaming that holds for one config.
struct ResolvedRenaming {
  std::string from;
  std::string to;
};
/// What a leaf of this name is called by the first renaming that fits, or as it is.
std::string renamed(const std::vector<ResolvedRenaming>& renames, std::string_view name);
/// The name that is renamed to this one.
std::string renamed_back(const std::vector<ResolvedRenaming>& renames, std::string_view name);

struct ResolvedModel {
  std::vector<ResolvedRule> rules;
  std::vector<ResolvedFill> fills;
  std::vector<ResolvedDrop> drops;
  std::vector<ResolvedRenaming> renames;
};

/// Evaluates every rule of a scheme for one config, without looking at tensors.
/// Throws: bad_input (config, expressions, stack indices), unsupported (no stacked or no separate
/// form, `require`).
ResolvedModel resolve(const Scheme& scheme, Bindings& bindings, bool stacked);

/// What the names of the source tensors of each layer begin with, sorted: of every group that has a
/// prefix.
std::vector<std::string> layer_prefixes(const Scheme& scheme, Bindings& bindings);

/// Whether every layer group that this config has can be stacked (or separate).
bool has_layout(const Scheme& scheme, Bindings& bindings, bool stacked);

}  // namespace hfshard
