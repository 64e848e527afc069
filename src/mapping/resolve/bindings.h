#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "mapping/language/pattern.h"
#include "mapping/tables/table.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// Returns the value of every name in a family's expressions. In this order, names are loops, dims,
/// options, rotary facts (`rope.theta`) and config paths. Config paths are tried below each place
/// of config_at. Computes dims on first use. Borrows everything; not thread-safe.
class Bindings final : public DimScope {
 public:
  using Options = std::map<std::string, std::string>;
  /// Returns the shape of a source tensor, without extents if they aren't known. Empty if the
  /// tensor doesn't exist.
  using ShapeOf = std::function<std::optional<Shape>(std::string_view)>;

  /// `shape_of` is for exists('tensor') and extent('tensor', axis). Without it, no tensor exists.
  /// `uncut` is the model's config.json if `config` only describes its first layers.
  Bindings(const MappingTable& table, const Json& config, const Options& options, ShapeOf shape_of,
           const Json* uncut = nullptr);

  ExprValue lookup(const std::string& name) const override;
  bool tensor_exists(std::string_view name) const override;
  ExprValue tensor_extent(std::string_view name, std::size_t axis) const override;
  std::int64_t length(const std::string& path) const override;
  bool is_stated(const std::string& path) const override;
  std::uint64_t extent(const std::string& dim) const override;
  std::string shown(const std::string& text) const override;

  const MappingTable& table() const noexcept { return table_; }
  const Options& options() const noexcept { return options_; }

  /// Opens a loop inside the open ones. Throws: bad_input if it ends before it begins.
  void push_loop(const LoopRule& loop);
  void pop_loop() { loops_.pop_back(); }
  /// Returns the range of the loop opened last.
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
  mutable std::vector<std::string> computing_;  // dims in progress, to find cycles
};

/// Returns a lookup in a catalog. The catalog must outlive it.
Bindings::ShapeOf shapes_of(const Catalog& catalog);

/// Parts of a model that are converted only if --with names them.
inline constexpr std::array<std::string_view, 3> kParts = {"mtp", "vision", "audio"};

/// Throws: usage, if the family lacks one of these options, with similar names.
void check_options(const MappingTable& table, const Bindings::Options& options);

/// The option for codes, and its value if codes stay codes. Then the rules of the scheme take their
/// scales too.
inline constexpr const char* kCodesOption = "codes";
inline constexpr const char* kKept = "kept";
/// Returns whether the options keep codes.
bool keeps_codes(const Bindings::Options& options);

/// Returns the possible options for a tree whose origin isn't known. Kept codes come first, since
/// such a tree has more leaves. Then come the options as they are, for the newest release of the
/// loader. Each other release with a different tree follows, and then each other form of the tree.
std::vector<Bindings::Options> for_each_form(const Scheme& scheme,
                                             const Bindings::Options& options);

}  // namespace hfshard
