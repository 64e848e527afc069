#pragma once

#include <cstdint>
#include <memory>

#include "plan/layout/layout.h"

namespace hfshard {

/// Two models of the same leaves (pair_models), split into the same units. Each side reads its data
/// of a unit as a conversion would, so a unit of both can be in memory and compared. The units
/// follow the left side's source.
class PairLayout {
 public:
  /// Throws: limit, as make_unit_form.
  PairLayout(const std::shared_ptr<const Model>& left, const std::shared_ptr<const Model>& right,
             const Limits& limits);

  /// Returns a layout whose units have scratch to fill one side, and then the other side's region.
  const Layout& left() const noexcept { return left_; }
  const Layout& right() const noexcept { return right_; }
  /// Returns the unit of the right layout with the same elements.
  UnitRef right_of(const UnitRef& left) const;
  /// Returns the scratch that filling a unit of a leaf needs, from either side.
  std::uint64_t fill_scratch(std::uint32_t leaf) const { return fill_scratch_[leaf]; }

 private:
  struct Cut;
  static Cut cut(const Model& left, const Model& right, const Limits& limits);
  PairLayout(std::shared_ptr<const Model> left, std::shared_ptr<const Model> right,
             const Limits& limits, Cut cut);

  PerLeaf<std::uint64_t> fill_scratch_;
  Layout left_;
  Layout right_;
};

}  // namespace hfshard
