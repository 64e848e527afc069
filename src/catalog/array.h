#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// A named array of a checkpoint.
struct Array {
  std::string name;  ///< in a tree, its dotted keys
  DType dtype = DType::bf16;
  Shape shape;
};

/// An array that hfshard writes, with the meaning of its dims.
struct Leaf : Array {
  /// Logical axis of each dim, "" for a dim without an axis. Empty if no dim has an axis.
  std::vector<std::string> axes;
  /// Whether each dim was inserted by stacking layers. Empty if none was.
  std::vector<bool> stacked;

  bool is_stacked(std::size_t dim) const { return dim < stacked.size() && stacked[dim]; }
  std::string_view axis(std::size_t dim) const {
    return dim < axes.size() ? std::string_view(axes[dim]) : std::string_view();
  }
};

/// Returns the name of the logical axis that is always split over these mesh axes:
/// `mesh:fsdp+tensor`. No axis rule applies to it.
std::string axis_on_mesh(const std::vector<std::string>& mesh_axes);
/// Returns the mesh axes in such a name. Empty for other names.
std::vector<std::string> mesh_axes_of(std::string_view axis);

/// Nodes that a scheme's loaders expect in a tree in addition to its arrays. An empty name means
/// that they don't expect the node.
struct TreeExtras {
  std::string step;   ///< a 64-bit integer, the step number
  std::string empty;  ///< an empty subtree
  friend bool operator==(const TreeExtras&, const TreeExtras&) = default;
};

}  // namespace hfshard
