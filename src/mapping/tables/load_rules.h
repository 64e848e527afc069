#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mapping/tables/load_reader.h"
#include "mapping/tables/table.h"

namespace hfshard {

/// The definitions that rules are checked against.
struct RuleContext {
  const MappingTable* table = nullptr;           ///< with its dims
  const Scheme* scheme = nullptr;                ///< null for drops of the family
  const std::vector<LoopRule>* loops = nullptr;  ///< of the layer group, or nullptr
};

/// Reads the position of stack axes. Throws: bad_input beyond the possible ranks.
std::size_t read_scan_axis(const JsonAt& at);
std::vector<LoopRule> read_loops(const JsonAt& at);
/// `known` has the existing logical axes; empty means any. Throws: bad_input with similar names.
AxisNames read_axes(const JsonAt& at, const std::vector<std::string>& known);
std::vector<Requirement> read_requirements(const JsonAt& at);
Rule read_rule(const JsonAt& at, const RuleContext& context);
FillRule read_fill(const JsonAt& at, const RuleContext& context);
DropRule read_drop(const JsonAt& at, const RuleContext& context);

}  // namespace hfshard
