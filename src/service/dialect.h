#pragma once

#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "plan/compile/compile_model.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// What the names of a model's tensors alone say.
struct NamedOtherwise {
  std::string dialect;                ///< of scheme "hf"; empty: they are the files' names
  std::optional<CompiledModel> back;  ///< the way to the files' names
  std::optional<Error> half;          ///< instead of it: why some of them are not of the dialect
};

/// Looks for the names of a dialect where those of the files, as the schemes of the model's family
/// take them, are not there. Of `mapping`, the families count, and what concerns dtypes. Tensors
/// that both have under one name are no sign.
NamedOtherwise names_of(const Catalog& catalog, const MappingOptions& mapping);

}  // namespace hfshard
