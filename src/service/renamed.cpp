#include "service/renamed.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace hfshard {
namespace {

class RenamedCheckpoint final : public Checkpoint {
 public:
  RenamedCheckpoint(std::shared_ptr<const Checkpoint> inner, std::vector<NamedArray> arrays,
                    const std::vector<std::string>& notes, const std::string& root)
      : inner_(std::move(inner)), catalog_(inner_->catalog()) {
    std::ranges::sort(arrays, {}, &NamedArray::name);
    const std::vector<TensorInfo> all = std::exchange(catalog_.tensors, {});
    const PerLeaf<ArraySharding> shardings = std::exchange(catalog_.shardings, {});
    for (NamedArray& array : arrays) {
      order_.push_back(array.array);
      catalog_.tensors.push_back(all[array.array]);
      catalog_.tensors.back().name = std::move(array.name);
      if (!shardings.empty()) catalog_.shardings.push_back(shardings[array.array]);
    }
    catalog_.notes.insert(catalog_.notes.end(), notes.begin(), notes.end());
    catalog_.structure = nullptr;
    catalog_.nested.clear();
    std::erase_if(catalog_.objects,
                  [&](const ObjectInfo& object) { return !object.name.starts_with(root); });
    for (ObjectInfo& object : catalog_.objects) object.name.erase(0, root.size());
  }

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return inner_->data_files(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    return inner_->has_piece(order_[array], piece);
  }
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override {
    return inner_->find_piece(order_[array], piece);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    return inner_->open_piece(order_[array], piece, steps, scratch);
  }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override {
    return inner_->scratch_bytes(order_[array], steps);
  }
  std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) const override {
    return inner_->object_digest(reader, object);
  }
  std::uint64_t heap_bytes() const override {
    return inner_->heap_bytes() + hfshard::heap_bytes(catalog_) +
           order_.capacity() * sizeof(std::uint32_t);
  }

 private:
  std::shared_ptr<const Checkpoint> inner_;
  Catalog catalog_;
  std::vector<std::uint32_t> order_;  // the index in `inner_` of each array
};

}  // namespace

std::shared_ptr<const Checkpoint> renamed(std::shared_ptr<const Checkpoint> inner,
                                          std::vector<NamedArray> arrays,
                                          const std::vector<std::string>& notes,
                                          const std::string& root) {
  return std::make_shared<RenamedCheckpoint>(std::move(inner), std::move(arrays), notes, root);
}

}  // namespace hfshard
