#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mapping/resolve/bindings.h"
#include "plan/compile/steps.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// The dtypes of the tensors that become one leaf, and the leaf's dtype.
class StoredDTypes {
 public:
  explicit StoredDTypes(const ModelBuilder& builder) : builder_(builder) {}

  /// Adds a tensor. `dtype` is the leaf's if it only had this tensor.
  void add(DType dtype, std::uint32_t tensor);
  /// Returns the dtype of the leaf: the common one, else the config's. Throws: bad_input if they
  /// differ and nothing decides.
  DType leaf_dtype(const std::string& name, const DTypeRule& rule, const Bindings& bindings,
                   const std::string& pointer);
  /// Returns whether the config decided.
  bool is_by_config() const noexcept { return by_config_; }
  /// Returns the first tensor of each dtype: `"a" (bf16) and "b" (f32)`.
  std::string tensors_text() const;

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& pointer) const;

  const ModelBuilder& builder_;
  std::vector<std::pair<DType, std::uint32_t>> stored_;  // the first tensor of each dtype
  bool by_config_ = false;
};

}  // namespace hfshard
