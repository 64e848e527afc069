#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/pattern.h"
#include "mapping/table.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// Answers every name of a family's expressions: loops, dims, options, config paths (in this
/// order; config paths below each place of config_at in turn).
/// Dims are computed on first use. Borrows everything; not thread-safe.
class Bindings final : public DimScope {
 public:
  using Options = std::map<std::string, std::string>;
  /// Shape of a source tensor, none of its extents where they are not known; nothing if it is not
  /// there.
  using ShapeOf = std::function<std::optional<Shape>(std::string_view)>;

  /// `shape_of` answers exists('tensor') and extent('tensor', axis); may be empty (nothing exists).
  /// `uncut` is the model's config.json where `config` speaks of its first layers only.
  Bindings(const MappingTable& table, const Json& config, const Options& options, ShapeOf shape_of,
           const Json* uncut = nullptr);

  ExprValue lookup(const std::string& name) const override;
  bool tensor_exists(std::string_view name) const override;
  ExprValue tensor_extent(std::string_view name, std::size_t axis) const override;
  std::int64_t length(const std::string& path) const override;
  std::uint64_t extent(const std::string& dim) const override;

  const MappingTable& table() const noexcept { return table_; }

  /// Opens a loop (inside those that are open). Throws: bad_input if it ends before it begins.
  void push_loop(const LoopRule& loop);
  void pop_loop() { loops_.pop_back(); }
  /// The range of the loop opened last.
  std::int64_t loop_begin() const { return loops_.back().begin; }
  std::int64_t loop_end() const { return loops_.back().end; }
  /// Sets the counter of the `depth`-th open loop, outermost first.
  void set_loop(std::size_t depth, std::int64_t value) { loops_[depth].value = value; }
  std::size_t loop_count() const noexcept { return loops_.size(); }

 private:
  struct OpenLoop {
    std::string name;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t value = 0;
  };

  ExprValue option(const std::string& name) const;
  const Json* find_config(const std::string& path) const;
  const Json* find_config(const Json& config, const std::string& path) const;
  ExprValue config(const std::string& path) const;
  ExprValue dim(const std::string& name, const Expr& expr) const;

  const MappingTable& table_;
  const Json& config_;
  const Options& options_;
  ShapeOf shape_of_;
  const Json* uncut_;
  std::vector<OpenLoop> loops_;
  mutable std::map<std::string, ExprValue, std::less<>> dims_;
  mutable std::vector<std::string> computing_;  // dims being computed, to find cycles
};

/// Looks tensors up in a catalog, which must outlive it.
Bindings::ShapeOf shapes_of(const Catalog& catalog);

/// Throws: usage, if the family has no option of one of these names, with near ones.
void check_options(const MappingTable& table, const Bindings::Options& options);

}  // namespace hfshard
