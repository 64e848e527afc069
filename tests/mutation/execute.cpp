#include <cstring>

#include "base/coding.h"
#include "mutation/cases.h"
#include "ops/decode.h"
#include "ops/value.h"

namespace hfshard::mutation {
namespace {

// Calls body(source offset, target offset) for every element of a map.
template <typename Body>
void for_each_element(const IndexMap& map, const Body& body) {
  const std::uint64_t count = map.count();
  for (std::uint64_t n = 0; n < count; ++n) {
    std::uint64_t rest = n;
    auto src = static_cast<std::int64_t>(map.src_base);
    auto dst = static_cast<std::int64_t>(map.dst_base);
    for (std::size_t k = map.digits.size(); k-- > 0;) {
      const auto i = static_cast<std::int64_t>(rest % map.digits[k].extent);
      rest /= map.digits[k].extent;
      src += i * map.digits[k].src_step;
      dst += i * map.digits[k].dst_step;
    }
    body(static_cast<std::uint64_t>(src), static_cast<std::uint64_t>(dst));
  }
}

// A source's elements as the leaf stores them.
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

std::uint64_t loop_offset(const Transfer& transfer, std::size_t source) {
  std::uint64_t out = 0;
  for (std::size_t k = transfer.loops.size(); k-- > 0;) {
    const Loop& loop = transfer.loops[k];
    out += source % loop.extent * static_cast<std::uint64_t>(loop.dst_step);
    source /= loop.extent;
  }
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
      const std::uint64_t offset = loop_offset(transfer, s);
      for_each_element(transfer.map, [&](std::uint64_t src, std::uint64_t dst) {
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
    for_each_element(fill.map, [&](std::uint64_t, std::uint64_t dst) {
      std::memcpy(out.data() + dst * size, stored.data(), size);
    });
  }
  return out;
}

}  // namespace hfshard::mutation
