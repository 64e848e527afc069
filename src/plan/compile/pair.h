#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "catalog/checkpoint.h"
#include "ops/transfer.h"
#include "plan/compile/model.h"

namespace hfshard {

/// A checkpoint, and the leaves that its arrays make.
struct ModelSide {
  std::shared_ptr<const Checkpoint> checkpoint;
  CompiledModel model;
};

/// Leaves of one name that are not of one shape, or dtype.
struct UnlikeLeaves {
  Leaf left;
  Leaf right;
};

/// Two models of the leaves that both make, under the same numbers, and what is not so.
struct ModelPair {
  std::shared_ptr<const Model> left;
  std::shared_ptr<const Model> right;
  std::vector<Leaf> only_left;
  std::vector<Leaf> only_right;
  std::vector<UnlikeLeaves> unlike;
};

/// The dtype in which elements of two dtypes are compared where only their values count: of two
/// that are cast into each other the narrower one, into which the others are rounded; f32 for f16
/// and bf16. Nothing if there is none.
std::optional<DType> narrower_dtype(DType a, DType b) noexcept;

/// Pairs the leaves of that `wanted` accepts by name. With `values_only` those of two dtypes are
/// paired too, in narrower_dtype. Throws: unsupported (elements that are no whole bytes).
ModelPair pair_models(ModelSide left, ModelSide right, bool values_only,
                      const std::function<bool(std::string_view)>& wanted);

}  // namespace hfshard
