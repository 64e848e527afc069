#include "plan/compile/model.h"

#include <numeric>
#include <utility>

namespace hfshard {
namespace {

// Counting sort of items by their target leaf: begin[] and the item indices.
template <typename Item>
void index_by_target(const std::vector<Item>& items, std::size_t leaves,
                     std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& order) {
  begin.assign(leaves + 1, 0);
  for (const Item& item : items) ++begin[item.target + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  order.resize(items.size());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t i = 0; i < items.size(); ++i) order[next[items[i].target]++] = i;
}

}  // namespace

Model::Model(Catalog source, CompiledModel compiled)
    : CompiledModel(std::move(compiled)), catalog(std::move(source)) {
  index_by_target(transfers, leaves.size(), leaf_transfer_begin_, leaf_transfers_);
  index_by_target(fills, leaves.size(), leaf_fill_begin_, leaf_fills_);
  slot_begin_.reserve(transfers.size() + 1);
  slot_begin_.push_back(0);
  for (const Transfer& transfer : transfers)
    slot_begin_.push_back(slot_begin_.back() + transfer.sources.size());
}

std::span<const std::uint32_t> Model::transfers_of(std::uint32_t leaf) const {
  return std::span(leaf_transfers_)
      .subspan(leaf_transfer_begin_[leaf],
               leaf_transfer_begin_[leaf + 1] - leaf_transfer_begin_[leaf]);
}

std::span<const std::uint32_t> Model::fills_of(std::uint32_t leaf) const {
  return std::span(leaf_fills_)
      .subspan(leaf_fill_begin_[leaf], leaf_fill_begin_[leaf + 1] - leaf_fill_begin_[leaf]);
}

std::vector<const Transfer*> Model::leading_to(std::uint32_t leaf) const {
  std::vector<const Transfer*> out;
  for (const std::uint32_t t : transfers_of(leaf)) out.push_back(&transfers[t]);
  return out;
}

std::shared_ptr<const Model> make_model(Catalog catalog, CompiledModel compiled) {
  return std::make_shared<const Model>(std::move(catalog), std::move(compiled));
}

}  // namespace hfshard
