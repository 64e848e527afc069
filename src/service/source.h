#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "catalog/format.h"
#include "plan/compile/compile_model.h"

#include "hfshard/plan.h"

namespace hfshard {

/// A source, opened, and what the options make of it.
struct OpenedSource {
  std::shared_ptr<const Checkpoint> checkpoint;
  CompiledModel model;
  std::optional<std::uint64_t> step;  ///< of a root with steps, the one that is read
};

/// Opens what convert, link and reshard read, and compiles it: a HuggingFace model by its mapping
/// (compile_source); a tree of arrays under its own names (TreeOptions::same), back to the model
/// that it was made of, or by way of that model to the names of another scheme. Throws: as
/// Format::open and compile_model; usage, unsupported (a tree where a model is wanted).
OpenedSource open_source_model(const StorePath& place, const PlanOptions& options);

/// Compiles a HuggingFace model by its mapping. Where its tensors have the names of a dialect, as
/// what lies beside them at `place` records or else the names show, by way of those of its files.
/// Throws: as compile_model; bad_input (names in part of the one and in part of the other kind).
CompiledModel compile_source(const Catalog& source, const StorePath& place,
                             const MappingOptions& mapping);
/// The same without the proof of names that are the files', as compile_unproved.
CompiledModel compile_source_unproved(const Catalog& source, const StorePath& place,
                                      const MappingOptions& mapping);

}  // namespace hfshard
