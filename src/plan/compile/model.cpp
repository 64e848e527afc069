#include "plan/compile/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/heap.h"
#include "ops/source_rows.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Sorts items by their target leaf (counting sort), into begin[] and the item indices.
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

std::uint64_t of_leaf(const Leaf& leaf) {
  return heap_bytes(leaf.name) + heap_bytes(leaf.axes) + heap_bytes(leaf.stacked);
}

std::uint64_t of_decode(const Decode& decode) {
  std::uint64_t out = sizeof(Decode);
  for (const auto* list : decode.lists()) out += heap_bytes(*list);
  return out;
}

std::uint64_t of_transfer(const Transfer& transfer) {
  return heap_bytes(transfer.loops) + heap_bytes(transfer.sources) +
         transfer.map.digits.heap_bytes() + (transfer.decode ? of_decode(*transfer.decode) : 0);
}

}  // namespace

Model::Model(std::shared_ptr<const Catalog> catalog, CompiledModel compiled)
    : CompiledModel(std::move(compiled)), catalog_(std::move(catalog)) {
  index();
}

Model::Model(std::shared_ptr<const Checkpoint> source, CompiledModel compiled)
    : CompiledModel(std::move(compiled)),
      source_(std::move(source)),
      catalog_(source_, &source_->catalog()) {
  index();
  if (claims) index_claims();
}

const Checkpoint& Model::source() const {
  HFSHARD_CHECK(source_ != nullptr);
  return *source_;
}

void Model::index() {
  index_by_target(transfers, leaves.size(), leaf_transfer_begin_, leaf_transfers_);
  index_by_target(fills, leaves.size(), leaf_fill_begin_, leaf_fills_);
  slot_begin_.reserve(transfers.size() + 1);
  slot_begin_.push_back(0);
  for (const Transfer& transfer : transfers)
    slot_begin_.push_back(slot_begin_.back() + transfer.sources.size());
}

void Model::index_claims() {
  CompiledModel held;
  held.leaves = claims->leaves;
  for (std::uint32_t leaf = 0; leaf < held.leaves.size(); ++leaf) {
    const auto array = catalog_->find(held.leaves[leaf].name);
    HFSHARD_CHECK(array.has_value());
    Transfer same;
    same.target = leaf;
    same.sources = {*array};
    same.source_shape = held.leaves[leaf].shape;
    same.source_dtype = held.leaves[leaf].dtype;
    same.map = identity_map(same.source_shape);
    held.transfers.push_back(std::move(same));
  }
  held.rules = {"as stored"};
  shorten_rows(held);
  held_ = std::make_shared<const Model>(source_, std::move(held));
  claimed_ = std::make_shared<const Model>(source_, *std::exchange(claims, nullptr));
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

std::uint64_t Model::object_bytes() const {
  std::uint64_t out = 0;
  for (const std::uint32_t index : objects) out += catalog_->objects[index].size_bytes();
  return out;
}

bool Model::has_name(std::string_view name) const {
  const auto leaf = std::ranges::lower_bound(
      leaves, name, {}, [](const Leaf& each) { return std::string_view(each.name); });
  if (leaf != leaves.end() && leaf->name == name) return true;
  const auto object = std::ranges::lower_bound(objects, name, {}, [&](std::uint32_t index) {
    return std::string_view(catalog_->objects[index].name);
  });
  return object != objects.end() && catalog_->objects[*object].name == name;
}

std::vector<const Transfer*> Model::leading_to(std::uint32_t leaf) const {
  std::vector<const Transfer*> out;
  for (const std::uint32_t t : transfers_of(leaf)) out.push_back(&transfers[t]);
  return out;
}

std::uint64_t Model::source_heap_bytes() const {
  return source_ ? source_->heap_bytes() : hfshard::heap_bytes(*catalog_);
}

std::uint64_t Model::heap_bytes() const {
  std::uint64_t of_claims = 0;
  for (const auto& model : {held_, claimed_}) {
    if (model) of_claims += model->heap_bytes() - model->source_heap_bytes();
  }
  return source_heap_bytes() + of_claims + hfshard::heap_bytes(rules) +
         hfshard::heap_bytes(leaves, of_leaf) + hfshard::heap_bytes(transfers, of_transfer) +
         hfshard::heap_bytes(fills, [](const Fill& fill) { return fill.map.digits.heap_bytes(); }) +
         hfshard::heap_bytes(drops,
                             [](const Drop& drop) {
                               return drop.map.digits.heap_bytes() + hfshard::heap_bytes(drop.why);
                             }) +
         hfshard::heap_bytes(through,
                             [](const Array& array) { return hfshard::heap_bytes(array.name); }) +
         hfshard::heap_bytes(axis_rules) + hfshard::heap_bytes(notes) +
         hfshard::heap_bytes(warnings) + hfshard::heap_bytes(model_names) +
         hfshard::heap_bytes(load_words) + hfshard::heap_bytes(load_note) +
         hfshard::heap_bytes(loader) + hfshard::heap_bytes(config_text) +
         hfshard::heap_bytes(objects) +
         hfshard::heap_bytes(left_out,
                             [](const LeftOutObject& object) {
                               return hfshard::heap_bytes(object.name) +
                                      hfshard::heap_bytes(object.why);
                             }) +
         hfshard::heap_bytes(leaf_transfers_) + hfshard::heap_bytes(leaf_transfer_begin_) +
         hfshard::heap_bytes(leaf_fills_) + hfshard::heap_bytes(leaf_fill_begin_) +
         hfshard::heap_bytes(slot_begin_);
}

std::shared_ptr<const Model> make_model(std::shared_ptr<const Checkpoint> source,
                                        CompiledModel compiled) {
  return std::make_shared<const Model>(std::move(source), std::move(compiled));
}

std::shared_ptr<const Model> make_model(Catalog catalog, CompiledModel compiled) {
  return std::make_shared<const Model>(std::make_shared<const Catalog>(std::move(catalog)),
                                       std::move(compiled));
}

}  // namespace hfshard
