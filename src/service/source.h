#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "catalog/format.h"
#include "plan/compile/compile_model.h"

#include "hfshard/plan.h"

namespace hfshard {

/// An opened source, compiled with the options.
struct OpenedSource {
  std::shared_ptr<const Checkpoint> checkpoint;
  CompiledModel model;
  std::optional<std::uint64_t> step;  ///< for a run, the selected step
  std::string step_name = {};         ///< of its directory
};

/// Opens and compiles the source of convert, link or reshard. A Hugging Face model uses its mapping
/// (compile_source). A tree of arrays keeps its names (TreeOptions::same), returns to its model, or
/// goes by way of that model to another scheme. Throws: as Format::open and compile_model; usage,
/// unsupported (a tree where a model is needed).
OpenedSource open_source_model(const StorePath& place, const PlanOptions& options);

/// Compiles a Hugging Face model by its mapping. Tensors with the names of a dialect go by way of
/// the files' names. The record next to them at `place`, or else the names, show the dialect.
/// `proves`: false compiles a model with the files' names by compile_unproved. Throws: as
/// compile_model; bad_input (names of both kinds).
CompiledModel compile_source(const Catalog& source, const StorePath& place,
                             const MappingOptions& mapping, bool proves = true);

}  // namespace hfshard
