// Fuzzes the header of a safetensors file, in a file of any size.

#include <algorithm>
#include <memory>
#include <string>

#include "format/safetensors/safetensors.h"
#include "fuzz/fuzz_target.h"
#include "support/memory_store.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::uint64_t stored_bytes(const TensorInfo& tensor) {
  if (std::ranges::count(tensor.shape, 0U) > 0) return 0;
  std::uint64_t bits = size_bits(tensor.dtype);
  for (const std::uint64_t extent : tensor.shape)
    HFSHARD_CHECK(!__builtin_mul_overflow(bits, extent, &bits));
  return bits / 8;
}

}  // namespace

void fuzz_safetensors(std::string_view bytes) {
  const auto files = std::make_shared<MemoryStore>();
  files->write("model.safetensors", std::string(bytes));
  const StorePath path(files, "tree/model.safetensors");
  const auto header = format::safetensors::parse_safetensors(path);
  std::uint64_t end = header.data_begin_bytes;
  for (const TensorInfo& tensor : header.tensors) {  // they are contiguous
    HFSHARD_CHECK(tensor.begin_bytes == end);
    HFSHARD_CHECK(tensor.size_bytes == stored_bytes(tensor));
    end += tensor.size_bytes;
  }
  HFSHARD_CHECK(end == bytes.size());
}

}  // namespace hfshard
