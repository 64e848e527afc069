#include "mapping/resolve/resolve.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Counters = std::vector<std::int64_t>;

// Opens the loops and calls `body` for every combination of their counters, the last loop fastest.
void for_each(Bindings& bindings, const std::vector<LoopRule>& loops,
              const std::function<void(const Counters&)>& body) {
  const std::size_t depth = bindings.loop_count();
  Counters begin;
  Counters end;
  bool empty = false;
  for (const LoopRule& loop : loops) {
    bindings.push_loop(loop);
    begin.push_back(bindings.loop_begin());
    end.push_back(bindings.loop_end());
    empty = empty || begin.back() == end.back();
  }
  Counters at = begin;
  bool more = !empty;
  while (more) {
    body(at);
    more = false;
    for (std::size_t i = loops.size(); i-- > 0;) {
      more = ++at[i] < end[i];
      if (!more) at[i] = begin[i];
      bindings.set_loop(depth + i, at[i]);
      if (more) break;
    }
  }
  for (std::size_t i = 0; i < loops.size(); ++i) bindings.pop_loop();
}

// Returns whether this config lacks the group's layers.
bool is_empty(Bindings& bindings, const LayerGroup& group) {
  bool any = false;
  for_each(bindings, group.loops, [&](const Counters&) { any = true; });
  return !any;
}

// One iteration of a group's loops, and its place along the stack axes.
struct Slot {
  Counters counters;
  Counters index;
};

// The slots that share one target prefix: one leaf per rule.
struct Placement {
  std::string prefix;
  std::vector<std::uint64_t> stack;
  std::vector<Slot> slots;
};

class Resolver {
 public:
  Resolver(const Scheme& scheme, Bindings& bindings, bool stacked)
      : scheme_(scheme), bindings_(bindings), stacked_(stacked) {}

  ResolvedModel resolve() {
    require(scheme_.require);
    const Placement whole{"", {}, {Slot{}}};
    for (const Rule& rule : scheme_.global) resolve_rule(rule, nullptr, whole);
    for (const FillRule& fill : scheme_.fills) resolve_fill(fill, nullptr, whole);
    for (const LayerGroup& group : scheme_.groups) resolve_group(group);
    if (scheme_.rest.empty()) {  // a dialect has rules for everything
      for (const DropRule& drop : bindings_.table().drops) resolve_drop(drop);
    }
    for (const DropRule& drop : scheme_.drops) resolve_drop(drop);
    for (const Renaming& item : scheme_.renames) rename(item, {}, {});
    return std::move(out_);
  }

 private:
  void require(const std::vector<Requirement>& list) const {
    for (const Requirement& item : list) {
      if (!item.expr.truth(bindings_)) {
        throw Error(ErrorCode::unsupported, item.why).by_rule(item.expr.pointer());
      }
    }
  }

  void rename(const Renaming& item, const std::string& from, const std::string& to) {
    if (item.when && !item.when->truth(bindings_)) return;
    out_.renames.push_back({from + item.from.name(bindings_), to + item.to.name(bindings_)});
  }

  void resolve_group(const LayerGroup& group) {
    require(group.require);
    if (is_empty(bindings_, group)) return;
    const auto& prefix = stacked_ ? group.stacked : group.separate;
    if (!prefix) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("layers {} of family {} don't have a {} form", quote(group.name),
                              quote(bindings_.table().family), stacked_ ? "stacked" : "separate"))
          .by_rule(group.pointer)
          .hint(stacked_ ? "--layers separate" : "--layers stacked");
    }
    const std::vector<Placement> placements = place(group, *prefix);
    for_each(bindings_, group.loops, [&](const Counters&) {
      for (const Renaming& item : group.renames)
        rename(item, group.hf.name(bindings_), prefix->name(bindings_));
    });
    for (const LoopRule& loop : group.loops) bindings_.push_loop(loop);
    for (const Rule& rule : group.rules) {
      for (const Placement& placement : placements) resolve_rule(rule, &group, placement);
    }
    for (const FillRule& fill : group.fills) {
      for (const Placement& placement : placements) resolve_fill(fill, &group, placement);
    }
    for (std::size_t i = 0; i < group.loops.size(); ++i) bindings_.pop_loop();
  }

  std::vector<Placement> place(const LayerGroup& group, const NameTemplate& prefix) {
    std::vector<Placement> out;
    for_each(bindings_, group.loops, [&](const Counters& counters) {
      Slot slot{counters, {}};
      if (stacked_) {
        for (const Expr& index : group.stack_index) slot.index.push_back(index.integer(bindings_));
      }
      std::string name = prefix.name(bindings_);
      auto found = std::ranges::find(out, name, &Placement::prefix);
      if (found == out.end()) found = out.insert(out.end(), Placement{std::move(name), {}, {}});
      found->slots.push_back(std::move(slot));
    });
    for (Placement& placement : out) check_stack(group, placement);
    return out;
  }

  // The stack indices must cover the cells of a box once.
  static void check_stack(const LayerGroup& group, Placement& placement) {
    std::vector<Slot>& slots = placement.slots;
    std::ranges::sort(slots, {}, &Slot::index);
    std::uint64_t cells = 1;
    for (std::size_t axis = 0; axis < slots.front().index.size(); ++axis) {
      std::int64_t last = 0;
      bool negative = false;
      for (const Slot& slot : slots) {
        last = std::max(last, slot.index[axis]);
        negative = negative || slot.index[axis] < 0;
      }
      if (negative || static_cast<std::uint64_t>(last) >= slots.size())
        fail_stack(group, placement);
      placement.stack.push_back(static_cast<std::uint64_t>(last) + 1);
      cells *= placement.stack.back();
    }
    const auto twice = std::ranges::adjacent_find(slots, {}, &Slot::index);
    if (twice != slots.end() || cells != slots.size()) fail_stack(group, placement);
  }

  [[noreturn]] static void fail_stack(const LayerGroup& group, const Placement& placement) {
    Error error(ErrorCode::bad_input,
                fmt::format("the layers under {} ({}) don't fill their stack from 0 without gaps",
                            quote(placement.prefix), placement.slots.size()));
    error.by_rule(group.pointer);
    const bool stacked = !placement.slots.front().index.empty();
    if (stacked && group.separate) error.hint("--layers separate");
    throw error;
  }

  void open_slot(const Slot& slot) {
    for (std::size_t i = 0; i < slot.counters.size(); ++i) bindings_.set_loop(i, slot.counters[i]);
  }

  // Returns the keys above a rule's target, ending in a dot.
  std::string head(const RuleModifiers& modifiers) const {
    return modifiers.collection ? scheme_.head(modifiers.collection->name(bindings_))
                                : scheme_.head();
  }

  // Returns whether the rule applies. It must for all layers of a stack or for none.
  bool applies(const RuleModifiers& modifiers, std::string_view pointer,
               const Placement& placement) {
    if (!modifiers.when) return true;
    std::size_t yes = 0;
    for (const Slot& slot : placement.slots) {
      open_slot(slot);
      if (modifiers.when->truth(bindings_)) ++yes;
    }
    if (yes == 0 || yes == placement.slots.size()) return yes != 0;
    throw Error(ErrorCode::unsupported,
                fmt::format("the rule holds for {} of the {} layers that are stacked under {}", yes,
                            placement.slots.size(), quote(placement.prefix)))
        .by_rule(pointer)
        .hint("--layers separate");
  }

  void resolve_rule(const Rule& rule, const LayerGroup* group, const Placement& placement) {
    if (!applies(rule.modifiers, rule.pointer, placement)) return;
    const std::vector<std::string> in_name = rule.target.names();
    std::vector<LoopRule> name_loops;
    std::vector<LoopRule> dim_loops;
    for (const LoopRule& loop : rule.modifiers.loops) {
      const bool named = std::ranges::find(in_name, loop.name) != in_name.end();
      (named ? name_loops : dim_loops).push_back(loop);
    }
    for_each(bindings_, name_loops, [&](const Counters&) {
      ResolvedRule out;
      out.rule = &rule;
      out.target = head(rule.modifiers) + placement.prefix;
      rule.target.append(bindings_, out.target);
      for (const Slot& slot : placement.slots) {
        open_slot(slot);
        for_each(bindings_, dim_loops, [&](const Counters&) {
          std::string name;
          if (group != nullptr) group->hf.append(bindings_, name);
          rule.source.append(bindings_, name);
          out.sources.push_back(std::move(name));
        });
      }
      lay_out_rule(rule, group, placement, dim_loops, out);
      out_.rules.push_back(std::move(out));
    });
  }

  void lay_out_rule(const Rule& rule, const LayerGroup* group, const Placement& placement,
                    const std::vector<LoopRule>& dim_loops, ResolvedRule& out) {
    for (const LoopRule& loop : dim_loops) bindings_.push_loop(loop);
    out.source_layout = lay_out(rule.source_pattern, bindings_, {}, 0, rule.pointer);
    out.target_layout = lay_out(rule.target_pattern, bindings_, placement.stack,
                                scan_axis(rule.modifiers), rule.pointer);
    for (std::size_t i = 0; i < dim_loops.size(); ++i) bindings_.pop_loop();
    out.loops = stack_loops(placement, out.target_layout);
    for (const LoopRule& loop : dim_loops) {
      const auto walk = std::ranges::find(out.target_layout.walks, loop.name, &Walk::dim);
      HFSHARD_CHECK(walk != out.target_layout.walks.end());
      out.loops.push_back({loop.name, walk->extent, walk->step});
      out.target_layout.walks.erase(walk);
    }
    name_axes(rule.target_pattern, rule.target.text(), rule.modifiers, group, placement, out.axes,
              out.stacked);
  }

  static std::vector<ResolvedLoop> stack_loops(const Placement& placement,
                                               const LaidOutPattern& layout) {
    std::vector<ResolvedLoop> out;
    for (std::size_t i = 0; i < placement.stack.size(); ++i) {
      out.push_back({"", placement.stack[i], layout.stack_steps[i]});
    }
    return out;
  }

  std::size_t scan_axis(const RuleModifiers& modifiers) const {
    return modifiers.scan_axis.value_or(scheme_.scan_axis);
  }

  void name_axes(const Pattern& pattern, std::string_view target, const RuleModifiers& modifiers,
                 const LayerGroup* group, const Placement& placement,
                 std::vector<std::string>& axes, std::vector<bool>& stacked) const {
    const AxisNames& names = modifiers.axes;
    for (const PatternNode& node : pattern.axes) {
      const bool overridden = axis_name(node, names, {}).has_value();
      if (is_norm_scale(target, pattern) && !overridden && !scheme_.axes_by_place) {
        axes.emplace_back("norm");
      } else {
        axes.push_back(axis_name(node, names, scheme_.axes).value_or(by_place(axes.size())));
      }
    }
    stacked.assign(axes.size(), false);
    const auto at = static_cast<std::ptrdiff_t>(std::min(scan_axis(modifiers), axes.size()));
    for (std::size_t i = placement.stack.size(); i-- > 0;) {
      axes.insert(axes.begin() + at, stack_name(group->stack_index[i]));
      stacked.insert(stacked.begin() + at, true);
    }
  }

  std::string by_place(std::size_t axis) const {
    return scheme_.axes_by_place ? fmt::format("dim_{}", axis) : std::string();
  }

  // A stack axis has the logical name of the loop in its index. The loader checked that it exists.
  std::string stack_name(const Expr& index) const {
    for (const std::string& name : index.names()) {
      const auto found = scheme_.axes.find(name);
      if (found != scheme_.axes.end()) return found->second;
    }
    return "";
  }

  void resolve_fill(const FillRule& fill, const LayerGroup* group, const Placement& placement) {
    if (!applies(fill.modifiers, fill.pointer, placement)) return;
    for_each(bindings_, fill.modifiers.loops, [&](const Counters&) {
      ResolvedFill out;
      out.rule = &fill;
      out.target = head(fill.modifiers) + placement.prefix;
      fill.target.append(bindings_, out.target);
      out.layout = lay_out(fill.pattern, bindings_, placement.stack, scan_axis(fill.modifiers),
                           fill.pointer);
      out.loops = stack_loops(placement, out.layout);
      name_axes(fill.pattern, fill.target.text(), fill.modifiers, group, placement, out.axes,
                out.stacked);
      out_.fills.push_back(std::move(out));
    });
  }

  void resolve_drop(const DropRule& drop) {
    if (drop.modifiers.when && !drop.modifiers.when->truth(bindings_)) return;
    ResolvedDrop out;
    out.rule = &drop;
    if (!drop.pattern.whole) out.layout = lay_out(drop.pattern, bindings_, {}, 0, drop.pointer);
    if (std::ranges::find(out.layout.walks, 0U, &Walk::extent) != out.layout.walks.end()) return;
    for_each(bindings_, drop.modifiers.loops, [&](const Counters&) {
      out.sources.push_back(drop.source.name(bindings_));
      if (drop.same_as) out.same_as.push_back(drop.same_as->name(bindings_));
    });
    out_.drops.push_back(std::move(out));
  }

  const Scheme& scheme_;
  Bindings& bindings_;
  bool stacked_;
  ResolvedModel out_;
};

}  // namespace

std::string renamed(const std::vector<ResolvedRenaming>& renames, std::string_view name) {
  for (const ResolvedRenaming& item : renames) {
    if (name.starts_with(item.from)) return item.to + std::string(name.substr(item.from.size()));
  }
  return std::string(name);
}

std::string renamed_back(const std::vector<ResolvedRenaming>& renames, std::string_view name) {
  for (const ResolvedRenaming& item : renames) {
    if (!name.starts_with(item.to)) continue;
    std::string out = item.from + std::string(name.substr(item.to.size()));
    if (renamed(renames, out) == name) return out;
  }
  return std::string(name);
}

bool has_layout(const Scheme& scheme, Bindings& bindings, bool stacked) {
  return std::ranges::all_of(scheme.groups, [&](const LayerGroup& group) {
    return (stacked ? group.stacked : group.separate).has_value() || is_empty(bindings, group);
  });
}

std::vector<std::string> layer_prefixes(const Scheme& scheme, Bindings& bindings) {
  std::vector<std::string> out;
  for (const LayerGroup& group : scheme.groups) {
    for_each(bindings, group.loops, [&](const Counters&) {
      std::string prefix = group.hf.name(bindings);
      if (!prefix.empty()) out.push_back(std::move(prefix));
    });
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

ResolvedModel resolve(const Scheme& scheme, Bindings& bindings, bool stacked) {
  return Resolver(scheme, bindings, stacked).resolve();
}

}  // namespace hfshard
