#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/language/pattern.h"
#include "mapping/resolve/bindings.h"
#include "mapping/tables/table.h"

namespace hfshard {

/// A counter that steps through a leaf: a stack axis, or a loop that is an axis of the leaf.
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

/// One drop with numbers. Regions without elements are skipped. Names can have `*`.
struct ResolvedDrop {
  const DropRule* rule = nullptr;
  std::vector<std::string> sources;
  std::vector<std::string> same_as;  ///< parallel to sources, or empty
  LaidOutPattern layout;             ///< unused for the pattern [*]
};

/// A renaming that holds for one config.
struct ResolvedRenaming {
  std::string from;
  std::string to;
};
/// Returns the new name of a leaf by the first renaming that fits, or its own name.
std::string renamed(const std::vector<ResolvedRenaming>& renames, std::string_view name);
/// Returns the name that is renamed to this one.
std::string renamed_back(const std::vector<ResolvedRenaming>& renames, std::string_view name);

struct ResolvedModel {
  std::vector<ResolvedRule> rules;
  std::vector<ResolvedFill> fills;
  std::vector<ResolvedDrop> drops;
  std::vector<ResolvedRenaming> renames;
};

/// Evaluates every rule of a scheme for one config, without looking at tensors.
/// Throws: bad_input (config, expressions, stack indices), unsupported (the stacked or separate
/// form doesn't exist, `require`).
ResolvedModel resolve(const Scheme& scheme, Bindings& bindings, bool stacked);

/// Returns the prefixes of each layer's source tensors, sorted. Only groups with a prefix count.
std::vector<std::string> layer_prefixes(const Scheme& scheme, Bindings& bindings);

/// Returns whether every layer group of this config can be stacked (or separate).
bool has_layout(const Scheme& scheme, Bindings& bindings, bool stacked);

}  // namespace hfshard
