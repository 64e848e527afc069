#pragma once

#include <cstdint>
#include <memory>

#include "plan/layout/layout.h"

namespace hfshard {

/// Two models of the same leaves (pair_models), cut into the same units: each reads what it has of
/// a unit as a conversion would, so that a unit of both can be held and compared. The units follow
/// the left one's source.
class PairLayout {
 public:
  /// Throws: limit, as make_unit_form.
  PairLayout(const std::shared_ptr<const Model>& left, const std::shared_ptr<const Model>& right,
             const Limits& limits);

  /// Its units have scratch for filling one side and, behind it, the other side's region.
  const Layout& left() const noexcept { return left_; }
  const Layout& right() const noexcept { return right_; }
  /// The unit of the right layout that has the same elements.
  UnitRef right_of(const UnitRef& left) const;
  /// Scratch of filling a unit of a leaf from either side.
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
