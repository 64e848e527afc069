#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store.h"
#include "plan/compile/pair.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"
#include "hfshard/hub.h"

namespace hfshard {

/// One of two checkpoints that are compared, opened.
struct DiffSide {
  std::string text;  ///< as it was named
  StorePath place;   ///< of the checkpoint: of a root with steps, the one step
  std::shared_ptr<const Checkpoint> checkpoint;
  bool is_model = false;    ///< a HuggingFace model, not a tree of arrays
  bool other_item = false;  ///< of a step, a tree that was named
  const Catalog& catalog() const noexcept { return checkpoint->catalog(); }
};

/// Opens one; reads metadata only. Throws: as inspect.
DiffSide open_side(const SourceName& name, Reporter& reporter);

/// Both as leaves of the same names.
struct SidesTogether {
  ModelSide a;
  ModelSide b;
  std::string through;  ///< DiffResult::through
  std::vector<std::string> notes;
};

/// Finds how two checkpoints are to be compared: by their names, where they share most; else a
/// model as the tree of arrays that it becomes, two trees as the models that they go back to. What
/// is computed on the way to a tree is computed anew for the model, and so compared bit for bit.
/// Throws: as compile_model; usage (nothing says which model a tree is of).
SidesTogether bring_together(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

}  // namespace hfshard
