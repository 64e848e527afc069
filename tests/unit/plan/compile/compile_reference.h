#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/coding.h"
#include "base/floats.h"
#include "catalog/catalog.h"
#include "ops/transfer.h"

namespace hfshard::reference {

/// Reads all bytes of a tensor.
inline std::vector<std::byte> read_tensor(const Catalog& catalog, const TensorInfo& tensor) {
  std::ifstream file(catalog.files[tensor.file].path.name(), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tensor.begin_bytes));
  std::string text(tensor.size_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// Calls body(source offset, target offset) for every element of a map.
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

/// Returns the loops' share of the target offsets of a transfer's source.
inline std::uint64_t loop_offset(const Transfer& transfer, std::size_t source) {
  std::uint64_t out = 0;
  for (std::size_t k = transfer.loops.size(); k-- > 0;) {
    const Loop& loop = transfer.loops[k];
    out += source % loop.extent * static_cast<std::uint64_t>(loop.dst_step);
    source /= loop.extent;
  }
  return out;
}

inline float read_value(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) return load_le<float>(at);
  if (dtype == DType::f16) return f16_to_f32(load_le<std::uint16_t>(at));
  return bf16_to_f32(load_le<std::uint16_t>(at));
}

inline void write_value(DType dtype, float value, std::byte* at) {
  if (dtype == DType::f32) {
    store_le(at, value);
  } else {
    store_le(at, dtype == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value));
  }
}

/// Computes every leaf's bytes slowly, element by element.
inline std::map<std::string, std::vector<std::byte>> execute(const Catalog& catalog,
                                                             const CompiledModel& model) {
  std::vector<std::vector<std::byte>> out;
  for (const Leaf& leaf : model.leaves) {
    out.emplace_back(packed_bytes(leaf.dtype, leaf.shape.numel()), std::byte{0xee});
  }
  for (const Transfer& transfer : model.transfers) {
    const Leaf& leaf = model.leaves[transfer.target];
    const std::size_t from = size_bits(transfer.source_dtype) / 8;
    const std::size_t to = size_bits(leaf.dtype) / 8;
    for (std::size_t s = 0; s < transfer.sources.size(); ++s) {
      const auto bytes = read_tensor(catalog, catalog.tensors[transfer.sources[s]]);
      const std::uint64_t offset = reference::loop_offset(transfer, s);
      for_each_element(transfer.map, [&](std::uint64_t src, std::uint64_t dst) {
        std::byte* target = out[transfer.target].data() + (dst + offset) * to;
        const std::byte* source = bytes.data() + src * from;
        if (transfer.value.empty() && transfer.source_dtype == leaf.dtype) {
          std::memcpy(target, source, to);
          return;
        }
        const float value =
            read_value(transfer.source_dtype, source) * transfer.value.mul.value_or(1.0F) +
            transfer.value.add.value_or(0.0F);
        write_value(leaf.dtype, value, target);
      });
    }
  }
  for (const Fill& fill : model.fills) {
    const DType dtype = model.leaves[fill.target].dtype;
    for_each_element(fill.map, [&](std::uint64_t, std::uint64_t dst) {
      write_value(dtype, static_cast<float>(fill.scalar),
                  out[fill.target].data() + dst * (size_bits(dtype) / 8));
    });
  }
  std::map<std::string, std::vector<std::byte>> named;
  for (std::size_t i = 0; i < out.size(); ++i) named[model.leaves[i].name] = std::move(out[i]);
  return named;
}

}  // namespace hfshard::reference
