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
  bool is_model = false;           ///< a Hugging Face model with its own names
  bool other_item = false;         ///< the selected tree of a step
  Choice choice;                   ///< with which the tree was opened, if there are several
  std::vector<std::string> notes;  ///< on how it was opened
  const Catalog& catalog() const noexcept { return checkpoint->catalog(); }
};

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
