#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/table.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns the config of a model with only the first `layers` of this config's `whole` layers.
/// Changes the number, lists with an entry for each layer, and layer numbers, at every place that
/// the family reads. `depth` of common.json has those keys.
Json config_of_first_layers(const MappingTable& table, const Json& config, std::uint64_t whole,
                            std::uint64_t layers);

/// The rules of a family for one model: for all of it, or for its first layers (--num-layers).
/// Borrows table, scheme, config and options.
class ModelRules {
 public:
  /// Throws: as resolve; usage, if there are fewer layers or the rules don't allow their number,
  /// with the nearest numbers that they allow; unsupported, if the family doesn't count layers.
  ModelRules(const MappingTable& table, const Scheme& scheme, const Json& config,
             const MappingOptions& options, const Bindings::ShapeOf& shape_of);
  ModelRules(const ModelRules&) = delete;
  ModelRules& operator=(const ModelRules&) = delete;

  const ResolvedModel& resolved() const noexcept { return resolved_; }
  /// Returns the bindings for the layers in use.
  const Bindings& bindings() const noexcept { return cut_ ? *cut_ : all_; }
  /// Returns the bindings for the whole model of config.json.
  const Bindings& uncut() const noexcept { return all_; }
  /// Returns whether layers are left out.
  bool is_cut() const noexcept { return cut_.has_value(); }
  /// Returns the config.json for the layers in use.
  const Json& config() const noexcept { return cut_ ? cut_config_ : config_; }

  /// Returns the prefixes of the left out layers' tensor names, and why they are left out.
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
