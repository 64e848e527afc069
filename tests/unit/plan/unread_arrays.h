#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "catalog/checkpoint.h"

namespace hfshard {

/// Arrays that plans are made of and nothing reads. Every piece exists. The constructor of a class
/// for a test fills the catalog.
class UnreadArrays : public Checkpoint {
 public:
  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t /*array*/, const Shape& /*piece*/) const override { return true; }
  std::uint64_t scratch_bytes(std::uint32_t /*array*/, PieceSteps /*steps*/) const override {
    return 0;
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t /*array*/, const Shape& /*piece*/,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    return nullptr;
  }

 protected:
  /// Adds arrays of [8, 6] that are compressed in pieces of this shape.
  void add_compressed(const Shape& piece, std::initializer_list<const char*> names) {
    Cut& cut = catalog_.cuts.emplace_back();
    cut.grid = {{8, 6}, piece, piece};
    cut.codecs = {"zstd"};
    for (const char* name : names) {
      TensorInfo& info = catalog_.tensors.emplace_back();
      info.name = name;
      info.shape = {8, 6};
      info.cut = 0;
    }
  }

  Catalog catalog_;
};

}  // namespace hfshard
