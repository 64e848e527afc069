#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

#include "hfshard/plan.h"

namespace hfshard {

/// Returns globs of names below the key `root` as globs of whole names.
std::vector<std::string> globs_below(const std::string& root, std::vector<std::string> globs);

/// Removes the common prefix of all names. Throws: bad_input.
void take_off(const std::string& prefix, Catalog& catalog);

/// Gives a catalog the config of --config and the files next to it. A recorded config is only text,
/// so its files aren't known. Needs `asked.config_text`.
void take_config(const TreeOptions& asked, Catalog& catalog);

/// A tree of arrays as a source. All of its files are its identity; its model's config and
/// tokenizer may be in another directory.
class TreeSource final : public Checkpoint {
 public:
  /// Selects the arrays below the key `root`, or all. A run checks whether any file below `place`
  /// changed. Throws: not_found (the key), io.
  TreeSource(std::shared_ptr<const Checkpoint> inner, const StorePath& place,
             const std::string& root);

  /// Allows the removal of a prefix.
  Catalog& names() noexcept { return catalog_; }
  /// Names the directory of all steps, which the user gave.
  void set_root(std::string root) { catalog_.root = std::move(root); }
  void keep(Beside beside) { catalog_.beside = std::move(beside); }
  /// Takes the model's config, tokenizer and similar files from this directory.
  void carry(const StorePath& directory, std::string config_text);
  /// Takes those of --config.
  void carry(const TreeOptions& asked);

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return inner_->data_files(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override;
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override;
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override;
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override;
  std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) const override {
    return inner_->object_digest(reader, object);
  }
  std::uint64_t heap_bytes() const override;

 private:
  void keep_below(const std::string& root);
  void keep_objects_below(const std::string& prefix);

  std::shared_ptr<const Checkpoint> inner_;
  std::uint32_t first_ = 0;  // the first array of `inner_`
  Catalog catalog_;
};

/// Returns the note on a list, in the words for it, that is the root of a nested state
/// (Catalog::nested).
std::string root_becomes_dict(std::string_view list);

}  // namespace hfshard
