#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mapping/load_reader.h"
#include "mapping/table.h"

namespace hfshard {

/// What rules are checked against while they are read.
struct RuleContext {
  const MappingTable* table = nullptr;           ///< its dims are read already
  const Scheme* scheme = nullptr;                ///< nullptr for drops of the family
  const std::vector<LoopRule>* loops = nullptr;  ///< of the layer group, or nullptr
};

/// Reads where stack axes go. Throws: bad_input beyond the ranks that there are.
std::size_t read_scan_axis(const JsonAt& at);
std::vector<LoopRule> read_loops(const JsonAt& at);
/// `known`: logical axes that there are; empty: any. Throws: bad_input with near names.
AxisNames read_axes(const JsonAt& at, const std::vector<std::string>& known);
std::vector<Requirement> read_requirements(const JsonAt& at);
Rule read_rule(const JsonAt& at, const RuleContext& context);
FillRule read_fill(const JsonAt& at, const RuleContext& context);
DropRule read_drop(const JsonAt& at, const RuleContext& context);

}  // namespace hfshard
