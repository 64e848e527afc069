#include <cstring>

#include "base/coding.h"
#include "mutation/cases.h"
#include "ops/decode.h"
#include "ops/value.h"
#include "unit/plan/compile/compile_reference.h"

namespace hfshard::mutation {
namespace {

// Converts a source's elements to the leaf's dtype.
Bytes converted(const Case& in, const Transfer& transfer, std::size_t source, DType to) {
  const Bytes& from = (*in.bytes)[transfer.sources[source]];
  const std::uint64_t count = transfer.source_shape.numel();
  if (!transfer.converts(to)) return from;
  Bytes out(packed_bytes(to, count));
  if (!transfer.decode) {
    apply_value(transfer.value, transfer.source_dtype, to, count, from, out);
    return out;
  }
  const Decode& decode = *transfer.decode;
  const ScaleRange range = scale_range(decode.form, 0, count);
  const std::span<const std::byte> scales((*in.bytes)[decode.scales[source]]);
  const std::size_t scale_bytes = size_bits(decode.form.scale_dtype) / 8;
  std::uint64_t overflows = 0;
  apply_decode(decode.form, transfer.value, to, 0, count, from,
               scales.subspan(range.first * scale_bytes, range.count * scale_bytes), out,
               overflows);
  return out;
}

}  // namespace

Bytes execute_leaf(const Case& in, const CompiledModel& model, std::uint32_t leaf) {
  const DType dtype = model.leaves[leaf].dtype;
  const std::size_t size = size_bits(dtype) / 8;
  Bytes out(packed_bytes(dtype, model.leaves[leaf].shape.numel()), std::byte{0xee});
  for (const Transfer& transfer : model.transfers) {
    if (transfer.target != leaf) continue;
    for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
      const Bytes from = converted(in, transfer, s, dtype);
      const std::uint64_t offset = reference::loop_offset(transfer, s);
      reference::for_each_element(transfer.map, [&](std::uint64_t src, std::uint64_t dst) {
        std::memcpy(out.data() + (dst + offset) * size, from.data() + src * size, size);
      });
    }
  }
  for (const Fill& fill : model.fills) {
    if (fill.target != leaf) continue;
    Bytes scalar(sizeof(float));
    store_le(scalar.data(), static_cast<float>(fill.scalar));
    Bytes stored(size);
    apply_value({}, DType::f32, dtype, 1, scalar, stored);
    reference::for_each_element(fill.map, [&](std::uint64_t, std::uint64_t dst) {
      std::memcpy(out.data() + dst * size, stored.data(), size);
    });
  }
  return out;
}

}  // namespace hfshard::mutation
