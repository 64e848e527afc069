#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"
#include "ops/transfer.h"

namespace hfshard {

/// A catalog and the rules that were compiled against it: what becomes of what, and nothing about
/// where it goes. One for all layouts of it, which share it; nothing changes it.
class Model final : public CompiledModel {
 public:
  Model(std::shared_ptr<const Catalog> catalog, CompiledModel compiled);
  /// Of an opened checkpoint, which it keeps open.
  Model(std::shared_ptr<const Checkpoint> source, CompiledModel compiled);

  const Catalog& catalog() const noexcept { return *catalog_; }
  /// Who reads the pieces of arrays that are not one plain piece. Of a model that was made of an
  /// opened checkpoint.
  const Checkpoint& source() const;
  /// Transfers (indices) that write a leaf, and fills.
  std::span<const std::uint32_t> transfers_of(std::uint32_t leaf) const;
  std::span<const std::uint32_t> fills_of(std::uint32_t leaf) const;
  /// The transfers that write a leaf.
  std::vector<const Transfer*> leading_to(std::uint32_t leaf) const;
  /// Digest slot of a transfer's source: one per (rule, source tensor).
  std::uint64_t digest_slot(std::uint32_t transfer, std::uint64_t source) const {
    return slot_begin_[transfer] + source;
  }
  std::uint64_t digest_slots() const { return slot_begin_.back(); }
  /// Heap that it holds, its catalog included (base/heap.h).
  std::uint64_t heap_bytes() const;

 private:
  void index();

  std::shared_ptr<const Checkpoint> source_;
  std::shared_ptr<const Catalog> catalog_;
  std::vector<std::uint32_t> leaf_transfers_, leaf_transfer_begin_;
  std::vector<std::uint32_t> leaf_fills_, leaf_fill_begin_;
  std::vector<std::uint64_t> slot_begin_;
};

std::shared_ptr<const Model> make_model(std::shared_ptr<const Checkpoint> source,
                                        CompiledModel compiled);
std::shared_ptr<const Model> make_model(Catalog catalog, CompiledModel compiled);

}  // namespace hfshard
