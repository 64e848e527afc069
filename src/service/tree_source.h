#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bytes/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

namespace hfshard {

/// Name of the one file that stands for all of a tree.
inline constexpr const char* kWholeTree = ".";

/// Names the arrays without what all of their names begin with. Throws: bad_input.
void take_off(const std::string& prefix, Catalog& catalog);

/// A tree of arrays as a source: all of its files are its identity, and what goes along with its
/// model may lie in another directory.
class TreeSource final : public Checkpoint {
 public:
  /// Of the arrays below a key, `root`, or of all. A run sees whether any of the files below
  /// `place` changed. Throws: not_found (the key), io.
  TreeSource(std::shared_ptr<const Checkpoint> inner, const StorePath& place,
             const std::string& root);

  /// Of which a prefix can be taken off.
  Catalog& names() noexcept { return catalog_; }
  void keep(Beside beside) { catalog_.beside = std::move(beside); }
  /// Takes config, tokenizer and such of a model from there.
  void carry(const StorePath& directory, std::string config_text);

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return inner_->data_files(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override;
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override;
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override;
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override;
  std::uint64_t heap_bytes() const override;

 private:
  void keep_below(const std::string& root);

  std::shared_ptr<const Checkpoint> inner_;
  std::uint32_t first_ = 0;  // array of `inner_` that is the first of these
  Catalog catalog_;
};

}  // namespace hfshard
