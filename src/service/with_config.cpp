#include "service/with_config.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"
#include "service/tree_source.h"

namespace hfshard {
namespace {

// Returns the catalog of files with the config from --config.
Catalog configured(Catalog catalog, const TreeOptions& asked) {
  if (!catalog.config_text.empty())
    catalog.notes.emplace_back("hfshard used the config of --config, not the source's own");
  std::vector<std::string> left = catalog.side_files;
  take_config(asked, catalog);
  if (!exists(asked.config_name)) return catalog;
  std::erase_if(left, [&](const std::string& name) {
    return std::ranges::find(catalog.side_files, name) != catalog.side_files.end();
  });
  if (left.empty()) return catalog;
  catalog.notes.push_back(fmt::format("config and tokenizer come from {}; not copied: {}",
                                      quote(parent_path(asked.config_name)), quoted_list(left)));
  return catalog;
}

// The same files and tensors with another catalog.
class ConfiguredFiles final : public Checkpoint {
 public:
  ConfiguredFiles(std::shared_ptr<const Checkpoint> inner, Catalog catalog)
      : inner_(std::move(inner)), catalog_(std::move(catalog)) {}

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return inner_->data_files(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    return inner_->has_piece(array, piece);
  }
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override {
    return inner_->find_piece(array, piece);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    return inner_->open_piece(array, piece, steps, scratch);
  }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const override {
    return inner_->scratch_bytes(array, steps);
  }
  std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) const override {
    return inner_->object_digest(reader, object);
  }
  std::uint64_t heap_bytes() const override {
    return inner_->heap_bytes() + hfshard::heap_bytes(catalog_);
  }

 private:
  std::shared_ptr<const Checkpoint> inner_;
  Catalog catalog_;
};

}  // namespace

std::shared_ptr<const Checkpoint> with_config(std::shared_ptr<const Checkpoint> files,
                                              const TreeOptions& asked) {
  if (!asked.config_text) return files;
  const Catalog& own = files->catalog();
  if (!own.config_text.empty() && parse_json(own.config_text, config_path(own.location)) ==
                                      parse_json(*asked.config_text, asked.config_name))
    return files;
  return std::make_shared<ConfiguredFiles>(std::move(files), configured(own, asked));
}

bool keeps_codes(const CompiledModel& model, const Catalog& catalog) {
  return std::ranges::any_of(model.transfers, [&](const Transfer& transfer) {
    return transfer.decode == nullptr &&
           std::ranges::any_of(transfer.sources, [&](std::uint32_t source) {
             return holds_codes(catalog.tensors[source]);
           });
  });
}

std::shared_ptr<const Checkpoint> with_files_of_codes(std::shared_ptr<const Checkpoint> files,
                                                      CompiledModel& model) {
  std::vector<std::string> kept = files->catalog().side_files;
  std::vector<std::string> left;
  std::erase_if(kept, [&](const std::string& name) {
    if (!describes_codes(name)) return false;
    left.push_back(name);
    return true;
  });
  if (left.empty() || keeps_codes(model, files->catalog())) return files;
  model.notes.push_back(
      fmt::format("not copied, since the output has no codes: {}", quoted_list(left)));
  Catalog catalog = files->catalog();
  catalog.side_files = std::move(kept);
  return std::make_shared<ConfiguredFiles>(std::move(files), std::move(catalog));
}

std::shared_ptr<const Checkpoint> without_side_files(std::shared_ptr<const Checkpoint> files) {
  Catalog catalog = files->catalog();
  catalog.side_files.clear();
  return std::make_shared<ConfiguredFiles>(std::move(files), std::move(catalog));
}

}  // namespace hfshard
