#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/resolve/bindings.h"
#include "mapping/tables/quantization.h"
#include "mapping/tables/table.h"
#include "ops/transfer.h"

namespace hfshard {

/// A tensor of codes and the tensors that it needs, as indices into the catalog's.
struct CodedTensor {
  BlockScale form;
  std::uint32_t scale = 0;
  std::optional<std::uint32_t> zeros;
  std::optional<std::uint32_t> factor;
};

/// Finds the tensors of a catalog that have codes, by their names and dtypes, their scales, and
/// config.json. The decoders of a family come before those of all families. Borrows everything; not
/// thread-safe.
class Codes {
 public:
  Codes(const MappingTable& table, const Bindings& bindings, const Catalog& catalog)
      : table_(table), bindings_(bindings), catalog_(catalog) {}

  /// Returns the decoder of a tensor, or nullptr if it has plain values, or codes that stay codes.
  const DecodeRule* decoder(const TensorInfo& tensor) const;
  /// Returns the tensor with this name in rules, or its codes.
  std::optional<std::uint32_t> find(std::string_view name) const;
  /// Returns whether it has codes of the shape that a rule shows.
  bool holds(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view) const;
  /// Returns the existing tensors that it needs.
  std::vector<std::uint32_t> beside(const DecodeRule& rule, const TensorInfo& tensor) const;
  /// Returns the coded tensor. Throws: not_found (scales), bad_input (their dtype or shape).
  CodedTensor coded(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view) const;

  const Catalog& catalog() const noexcept { return catalog_; }

 private:
  const TensorInfo& tensor(std::uint32_t index) const { return catalog_.tensors[index]; }
  bool is_complete(const DecodeRule& rule, const TensorInfo& tensor) const;
  std::pair<std::uint64_t, std::uint64_t> block_of(const DecodeRule& rule) const;
  std::uint32_t scale_of(const DecodeRule& rule, const TensorInfo& coded) const;
  BlockScale form(const DecodeRule& rule, const TensorInfo& coded, const TensorInfo& scale,
                  const Shape& view) const;
  bool needs_zeros() const;
  void add_zeros(const DecodeRule& rule, const TensorInfo& coded, std::uint64_t matrices,
                 CodedTensor& out) const;
  void add_factor(const DecodeRule& rule, const TensorInfo& coded, CodedTensor& out) const;
  [[noreturn]] void fail(const DecodeRule& rule, const TensorInfo& at,
                         const std::string& sentence) const;
  [[noreturn]] void fail_scales(const DecodeRule& rule, const TensorInfo& coded,
                                const TensorInfo& scale, std::uint64_t wanted) const;

  const MappingTable& table_;
  const Bindings& bindings_;
  const Catalog& catalog_;
  mutable std::unordered_map<const DecodeRule*, std::pair<std::uint64_t, std::uint64_t>> blocks_;
  mutable std::optional<bool> needs_zeros_;
};

/// Returns whether a name is that of scales, such as "x.weight_scale_inv", and not of codes.
bool is_named_as_scale(std::string_view name);

/// Returns the code of a tensor whose codes have this shape. Empty if they can't have it.
std::optional<Code> code_of(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view);

/// Returns the bits of packed integers, which config.json states for all. Throws: unsupported.
std::uint32_t packed_bits(const Json& config, const std::string& location);

/// Returns one decoder for tensors with the same form.
Decode decode_of(std::span<const CodedTensor> tensors);

}  // namespace hfshard
