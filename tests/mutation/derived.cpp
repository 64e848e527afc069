#include "mutation/derived.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "hfshard/error.h"

namespace hfshard::mutation {
namespace {

constexpr std::string_view kStack = ".layers.";
constexpr std::size_t kScanAxis = 1;

std::optional<std::size_t> find_leaf(const Case& in, std::string_view path) {
  const auto found = std::ranges::find(in.original.leaves, path, &Leaf::name);
  if (found == in.original.leaves.end()) return std::nullopt;
  return static_cast<std::size_t>(found - in.original.leaves.begin());
}

}  // namespace

// The vocabulary is the first axis of the embedding and of a table of tokens. In the output layer's
// kernel, it is the last one.
Bytes with_rows(const Case& whole, std::uint32_t leaf, std::uint64_t rows) {
  const Leaf& old = whole.original.leaves[leaf];
  const bool first =
      old.name.ends_with("token_embedder.embedding") || old.name.ends_with(".tid2eid");
  if (!first && !old.name.ends_with("logits_dense.kernel")) return whole.right[leaf];
  const std::size_t size = size_bits(old.dtype) / 8;
  const std::uint64_t had = first ? old.shape[0] : old.shape[1];
  const std::uint64_t width = first ? old.shape[1] * size : size;
  const std::uint64_t lines = first ? 1 : old.shape[0];
  Bytes out(lines * rows * width, std::byte{0});
  for (std::uint64_t line = 0; line < lines; ++line) {
    const auto from = whole.right[leaf].begin() + static_cast<std::ptrdiff_t>(line * had * width);
    std::copy_n(from, std::min(had, rows) * width,
                out.begin() + static_cast<std::ptrdiff_t>(line * rows * width));
  }
  return out;
}

Bytes made_of(const Case& whole, const Leaf& leaf) {
  if (const auto same = find_leaf(whole, leaf.name)) return whole.right[*same];
  const std::size_t at = leaf.name.find(kStack);
  std::vector<const Bytes*> layers;
  for (std::size_t l = 0; at != std::string::npos; ++l) {
    std::string path = leaf.name;
    path.replace(at, kStack.size(), fmt::format(".layers_{}.", l));
    const auto found = find_leaf(whole, path);
    if (!found) break;
    layers.push_back(&whole.right[*found]);
  }
  if (layers.empty()) throw Error(ErrorCode::bad_input, "the oracle has nothing for " + leaf.name);
  // The stack axis is before `inner`: one run of each layer, in order.
  std::size_t inner = size_bits(leaf.dtype) / 8;
  for (std::size_t axis = std::min(kScanAxis, leaf.shape.rank() - 1) + 1; axis < leaf.shape.rank();
       ++axis)
    inner *= leaf.shape[axis];
  Bytes out;
  for (std::size_t begin = 0; begin < layers.front()->size(); begin += inner) {
    for (const Bytes* layer : layers) {
      const auto from = layer->begin() + static_cast<std::ptrdiff_t>(begin);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(inner));
    }
  }
  return out;
}

}  // namespace hfshard::mutation
