#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "ops/transfer.h"

namespace hfshard {

/// A catalog and the rules compiled against it, without places in the output. Immutable, and shared
/// by all its layouts.
class Model final : public CompiledModel {
 public:
  Model(std::shared_ptr<const Catalog> catalog, CompiledModel compiled);
  /// Makes the model of an opened checkpoint, and keeps it open.
  Model(std::shared_ptr<const Checkpoint> source, CompiledModel compiled);

  const Catalog& catalog() const noexcept { return *catalog_; }
  /// Returns the reader of arrays that aren't one plain piece. Requires a model of an opened
  /// checkpoint.
  const Checkpoint& source() const;
  /// Returns the arrays of CompiledModel::claims as they are stored. Null without claims.
  const std::shared_ptr<const Model>& held() const noexcept { return held_; }
  /// Returns the same arrays as they should be.
  const std::shared_ptr<const Model>& claimed() const noexcept { return claimed_; }
  /// Return the transfers (indices) that write a leaf, and its fills.
  std::span<const std::uint32_t> transfers_of(std::uint32_t leaf) const;
  std::span<const std::uint32_t> fills_of(std::uint32_t leaf) const;
  /// Returns the bytes of the objects that the output keeps.
  std::uint64_t object_bytes() const;
  /// Returns whether a leaf or a kept object has this name.
  bool has_name(std::string_view name) const;
  /// Returns the transfers that write a leaf.
  std::vector<const Transfer*> leading_to(std::uint32_t leaf) const;
  /// Returns the digest slot of a transfer's source: one per (rule, source tensor).
  std::uint64_t digest_slot(std::uint32_t transfer, std::uint64_t source) const {
    return slot_begin_[transfer] + source;
  }
  std::uint64_t digest_slots() const { return slot_begin_.back(); }
  /// Returns the heap bytes that it holds, its catalog included (base/heap.h).
  std::uint64_t heap_bytes() const;
  /// Returns the part of them that models of the same source share.
  std::uint64_t source_heap_bytes() const;

 private:
  void index();
  void index_claims();

  std::shared_ptr<const Checkpoint> source_;
  std::shared_ptr<const Catalog> catalog_;
  std::shared_ptr<const Model> held_, claimed_;
  std::vector<std::uint32_t> leaf_transfers_, leaf_transfer_begin_;
  std::vector<std::uint32_t> leaf_fills_, leaf_fill_begin_;
  std::vector<std::uint64_t> slot_begin_;
};

std::shared_ptr<const Model> make_model(std::shared_ptr<const Checkpoint> source,
                                        CompiledModel compiled);
std::shared_ptr<const Model> make_model(Catalog catalog, CompiledModel compiled);

}  // namespace hfshard
