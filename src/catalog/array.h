#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// A named array of a checkpoint, whoever wrote it or is to write it.
struct Array {
  std::string name;  ///< of a tree: its keys, dotted
  DType dtype = DType::bf16;
  Shape shape;
};

/// An array of a tree that is to be written, with what its dims mean.
struct Leaf : Array {
  std::vector<std::string>
      axes;                   ///< logical axis per dim, "" where one has none; empty: no dim has
  std::vector<bool> stacked;  ///< per dim: inserted by stacking layers; empty: none is

  bool is_stacked(std::size_t dim) const { return dim < stacked.size() && stacked[dim]; }
  std::string_view axis(std::size_t dim) const {
    return dim < axes.size() ? std::string_view(axes[dim]) : std::string_view();
  }
};

/// Name of the logical axis that lies on these axes of a mesh whatever the rules say:
/// `mesh:fsdp+tensor`. It is its own rule.
std::string axis_on_mesh(const std::vector<std::string>& mesh_axes);
/// The axes that such a name means; none for other names.
std::vector<std::string> mesh_axes_of(std::string_view axis);

/// What a tree holds beside its arrays, since a scheme's loaders look for it. Empty names: nothing.
struct TreeExtras {
  std::string step;   ///< name of a 64-bit integer, the step's number
  std::string empty;  ///< name of a subtree without anything in it
  friend bool operator==(const TreeExtras&, const TreeExtras&) = default;
};

}  // namespace hfshard
