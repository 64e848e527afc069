#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "mapping/bindings.h"
#include "mapping/resolve.h"
#include "mapping/table.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The config of a model that has only the first `layers` of the `whole` ones of this config: the
/// number, lists with an entry for each layer, and numbers of layers, wherever the family looks
/// them up (`depth` of common.json says which keys those are).
Json config_of_first_layers(const MappingTable& table, const Json& config, std::uint64_t whole,
                            std::uint64_t layers);

/// The rules of a family for one model: for all of it, or for its first layers (--num-layers).
/// Borrows table, scheme, config and options.
class ModelRules {
 public:
  /// Throws: what resolve throws; usage, if there are not so many layers or the rules do not hold
  /// for their number, with the numbers next to it that would do; unsupported, if the family counts
  /// no layers.
  ModelRules(const MappingTable& table, const Scheme& scheme, const Json& config,
             const MappingOptions& options, const Bindings::ShapeOf& shape_of);
  ModelRules(const ModelRules&) = delete;
  ModelRules& operator=(const ModelRules&) = delete;

  const ResolvedModel& resolved() const noexcept { return resolved_; }
  /// Of the layers that are taken.
  const Bindings& bindings() const noexcept { return cut_ ? *cut_ : all_; }
  /// Of the model as its config.json says it is.
  const Bindings& uncut() const noexcept { return all_; }
  /// Whether layers are left out.
  bool is_cut() const noexcept { return cut_.has_value(); }
  /// What a config.json says of the layers that are taken.
  const Json& config() const noexcept { return cut_ ? cut_config_ : config_; }

  /// What the names of the tensors of left out layers begin with, and why they are left out.
  std::vector<std::string> left_out();
  std::string why_left_out() const;

 private:
  void take_first(std::uint64_t layers);
  std::uint64_t count_layers(const Bindings& bindings) const;
  Json config_of(std::uint64_t layers) const;
  bool fits(std::uint64_t layers, bool stacked) const;
  [[noreturn]] void refuse(std::uint64_t layers, const Error& reason);

  const MappingTable& table_;
  const Scheme& scheme_;
  const Json& config_;
  const MappingOptions& options_;
  Bindings::ShapeOf shape_of_;
  Bindings all_;
  std::uint64_t whole_ = 0;  // layers of the uncut model
  Json cut_config_;
  std::optional<Bindings> cut_;
  ResolvedModel resolved_;
};

}  // namespace hfshard
