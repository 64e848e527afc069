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

/// Leaves with the same name but another shape or dtype. Layers of a stack can have another dtype
/// than the others; then it is that one.
struct UnlikeLeaves {
  Leaf left;
  Leaf right;
};

/// The dtypes of a leaf in two models, before the one for comparing replaces both.
struct DTypePair {
  DType left;
  DType right;
};

/// Two models of their common leaves, with the same numbers, and the differences.
struct ModelPair {
  std::shared_ptr<const Model> left;
  std::shared_ptr<const Model> right;
  std::vector<DTypePair> dtypes;  ///< of each leaf
  std::vector<Leaf> only_left;
  std::vector<Leaf> only_right;
  std::vector<UnlikeLeaves> unlike;
};

/// Returns the dtype for comparing the values of two dtypes. If they can be cast, it is the
/// narrower one, to which the others are rounded. It is f32 for f16 and bf16, and the other one for
/// f64. Empty for other pairs.
std::optional<DType> narrower_dtype(DType a, DType b) noexcept;

/// Pairs the leaves whose names `wanted` accepts. With `values_only`, also pairs those with two
/// dtypes, in narrower_dtype. Throws: unsupported (elements that aren't whole bytes).
ModelPair pair_models(ModelSide left, ModelSide right, bool values_only,
                      const std::function<bool(std::string_view)>& wanted);

}  // namespace hfshard
