#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catalog/format.h"

namespace hfshard {

/// A checkpoint that has a catalog and no data.
class CatalogOnly : public Checkpoint {
 public:
  explicit CatalogOnly(Catalog catalog) : catalog_(std::move(catalog)) {}
  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t /*array*/, const Shape& /*piece*/) const override { return false; }
  std::optional<PiecePlace> find_piece(std::uint32_t /*array*/,
                                       const Shape& /*piece*/) const override {
    return std::nullopt;
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t /*array*/, const Shape& /*piece*/,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    return nullptr;
  }
  std::uint64_t scratch_bytes(std::uint32_t /*array*/, PieceSteps /*steps*/) const override {
    return 0;
  }

 private:
  Catalog catalog_;
};

/// Returns a catalog of arrays with these names.
inline Catalog catalog_named(std::vector<std::string> names) {
  std::ranges::sort(names);
  Catalog out;
  for (const std::string& name : names) out.tensors.emplace_back().name = name;
  return out;
}

inline std::shared_ptr<const Checkpoint> checkpoint_of(Catalog catalog) {
  return std::make_shared<CatalogOnly>(std::move(catalog));
}

inline std::vector<std::string> names_of_arrays(const Catalog& catalog) {
  std::vector<std::string> out;
  for (const TensorInfo& info : catalog.tensors) out.push_back(info.name);
  return out;
}

}  // namespace hfshard
