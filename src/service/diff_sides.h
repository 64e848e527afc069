#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "plan/compile/pair.h"
#include "service/step.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"
#include "hfshard/hub.h"

namespace hfshard {

/// One of two checkpoints to compare, opened.
struct DiffSide : ReadStep {
  std::string text;  ///< as typed; for a run, its checkpoint
  std::shared_ptr<const Checkpoint> checkpoint;
  bool is_model = false;    ///< a Hugging Face model, not a tree
  bool other_item = false;  ///< the selected tree of a step
  Choice choice;            ///< with which the tree was opened, if there are several
  const Catalog& catalog() const noexcept { return checkpoint->catalog(); }
};

/// Opens a checkpoint; reads only metadata. `options.items`: for a step that doesn't select a tree
/// itself. Arrays that can't be read and that --exclude selects are left out, with a note. Throws:
/// as inspect.
/// `any_tree`: if the step has several trees, and none is selected, takes the usual or the first.
DiffSide open_side(const SourceName& name, const DiffOptions& options, bool any_tree,
                   Reporter& reporter);

/// Opens another tree of the same step, by its path there.
DiffSide open_other_tree(const DiffSide& side, const std::string& tree, const DiffOptions& options);

/// Returns whether a place holds a Hugging Face model rather than a tree. Throws: as inspect.
bool names_model(const SourceName& name);

/// Both checkpoints as leaves with the same names.
struct SidesTogether {
  ModelSide a;
  ModelSide b;
  std::string through;  ///< DiffResult::through
  std::vector<std::string> notes;
};

/// Finds how to compare two checkpoints. If they share most names, it compares by name. Otherwise
/// it maps a model to the tree that it becomes, or two trees back to their models. It repeats the
/// values that the mapping computes, so the comparison is bit for bit. Throws: as compile_model;
/// usage (nothing tells which model a tree belongs to).
SidesTogether bring_together(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

}  // namespace hfshard
