#pragma once

#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "plan/compile/compile_model.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// The facts that a model's tensor names alone give.
struct NamedOtherwise {
  std::string dialect;                ///< of scheme "hf"; empty: they are the files' names
  std::optional<CompiledModel> back;  ///< the mapping to the files' names
  std::optional<Error> half;          ///< why some names aren't of the dialect, instead
};

/// Looks for the names of a dialect if the tensors lack the names of the files, as the schemes of
/// the model's family read them. Only the families and dtypes of `mapping` count. Names that both
/// have are no evidence.
NamedOtherwise names_of(const Catalog& catalog, const MappingOptions& mapping);

}  // namespace hfshard
