#include <utility>

#include <fmt/format.h>

#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {

void compile_hf(ModelBuilder& builder) {
  CompiledModel& model = builder.model();
  const std::uint32_t rule = builder.rule("--scheme hf");
  const Catalog& catalog = builder.catalog();
  model.leaves.reserve(catalog.tensors.size());
  model.transfers.reserve(catalog.tensors.size());
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    if (builder.excluded(i)) continue;
    const TensorInfo& tensor = catalog.tensors[i];
    Leaf leaf;
    leaf.name = tensor.name;
    check_path(tensor.name);
    leaf.dtype = leaf_dtype(builder.options(), tensor.name, tensor.dtype, {});
    if (!can_apply_value({}, tensor.dtype, leaf.dtype)) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("a cast from {} to {} is not possible", to_string(tensor.dtype),
                              to_string(leaf.dtype)))
          .in_tensor(tensor.name)
          .hint("casts work on f16, bf16 and f32; leave it out with --exclude");
    }
    leaf.shape = tensor.shape;
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.rule = rule;
    transfer.sources = {i};
    transfer.source_shape = tensor.shape;
    transfer.source_dtype = tensor.dtype;
    transfer.map = identity_map(tensor.shape);
    model.leaves.push_back(std::move(leaf));
    model.transfers.push_back(std::move(transfer));
    builder.mark(i, TensorUse::mapped);
  }
}

}  // namespace hfshard
