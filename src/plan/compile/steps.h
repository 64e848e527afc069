#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/resolve.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// What became of each tensor of the catalog.
enum class TensorUse : std::uint8_t { none, excluded, mapped, dropped };

/// A tensor that a rule names and the catalog lacks.
struct MissingTensor {
  std::string name;
  std::string rule;
};

/// Why --include or --exclude leave a tensor out.
struct LeftOut {
  std::string_view flag;
  std::string why;
};
/// Nothing for those that are taken.
std::optional<LeftOut> left_out(const MappingOptions& options, std::string_view name);
/// Throws: usage, with the location, if a glob of the two matches no tensor.
void check_globs(const MappingOptions& options, const Catalog& catalog,
                 const std::string& location);

/// A compiled model while it grows; every scheme goes through it.
class ModelBuilder {
 public:
  ModelBuilder(const Catalog& catalog, const MappingOptions& options);

  /// Applies --include and --exclude: what is left out becomes a named drop.
  void exclude(const MappingOptions& options);
  /// Leaves out the tensors whose names begin with one of these, in the same way.
  void leave_out(const std::vector<std::string>& prefixes, const std::string& why);
  /// Gives leaves other names than their rules say.
  void rename_leaves(std::vector<ResolvedRenaming> renames) { renames_ = std::move(renames); }
  /// What a leaf is called: renamed, behind --prefix.
  std::string leaf_name(std::string_view name) const {
    return options_.prefix + renamed(renames_, name);
  }
  std::uint32_t rule(std::string_view pointer);
  bool excluded(std::uint32_t tensor) const { return uses_[tensor] == TensorUse::excluded; }
  void mark(std::uint32_t tensor, TensorUse use) { uses_[tensor] = use; }
  TensorUse use(std::uint32_t tensor) const { return uses_[tensor]; }
  /// Drops all of a tensor.
  void drop_whole(std::uint32_t tensor, std::uint32_t rule, std::string why);
  /// Sorts the leaves by path; checks that no path is the prefix of another, and that every cast
  /// has a leaf.
  CompiledModel finish();

  const Catalog& catalog() const noexcept { return catalog_; }
  const MappingOptions& options() const noexcept { return options_; }
  CompiledModel& model() noexcept { return model_; }

 private:
  void sort_leaves();
  void check_twice() const;
  void check_prefixes() const;
  void check_casts() const;

  const Catalog& catalog_;
  MappingOptions options_;
  CompiledModel model_;
  std::vector<ResolvedRenaming> renames_;
  std::vector<TensorUse> uses_;
  std::unordered_map<std::string, std::uint32_t> rules_;
};

/// Throws: unsupported, if the config names a quantisation that nothing here decodes.
void check_quantisation(const MappingTable& table, const Json& config, const std::string& location);

/// The decoder that a family has for this tensor, or nullptr if it holds plain values.
const DecodeRule* find_decode(const MappingTable& table, const Bindings& bindings,
                              const TensorInfo& tensor);

/// Whether a coded tensor holds codes of the shape that a rule shows.
bool holds_codes(const DecodeRule& rule, const TensorInfo& tensor, const Shape& view);

/// Finds the scales of coded sources and marks them as used. `view` is the shape in codes.
/// Throws: not_found (scales), bad_input (their dtype or shape).
Decode compile_decode(const DecodeRule& rule, const Bindings& bindings,
                      const std::vector<std::uint32_t>& sources, const Shape& view,
                      ModelBuilder& builder);

/// What a rule says about the dtype of its leaf.
struct DTypeRule {
  std::optional<DType> floor;
  std::optional<DType> stays;
};
/// What --dtype and --cast make of a leaf whose source has the dtype `natural`. Only a cast goes
/// below what the rule says. Integers become what the rule says, whatever --dtype and --cast are.
DType leaf_dtype(const MappingOptions& options, std::string_view path, DType natural,
                 const DTypeRule& rule);

/// Checks a dotted leaf path. Throws: unsupported (empty component, '/').
void check_path(const std::string& path);

/// Where source number `number` of a transfer begins in its leaf: its loops count row-major.
std::uint64_t loop_offset(const Transfer& transfer, std::uint64_t number) noexcept;

/// A model that proves right. Throws: bad_input, with the first finding of prove().
CompiledModel proved(const Catalog& catalog, CompiledModel model);

/// The rule by which tensors of layers are dropped that a model has no longer.
inline constexpr std::string_view kNumLayers = "--num-layers";

/// What the notes of a way back begin with that say what was rounded before.
inline constexpr std::string_view kNotExact = "not exact";

/// Where the config.json of a source stands, as errors name it.
std::string config_path(const std::string& location);
/// The family of a config, the user's own first. Throws: unsupported, with near names; bad_input,
/// if a mapping was asked for and is not the model's.
FamilyFile family_of(const Json& config, const std::string& location,
                     const std::vector<MappingFile>& own);
/// The scheme that was asked for, or the dialect of scheme "hf". Throws: unsupported, with those
/// that there are.
const Scheme& scheme_of(const MappingTable& table, const MappingOptions& options);
/// What was asked for, with separate layers where the scheme has no others.
MappingOptions in_layout(const MappingOptions& asked, const Scheme& scheme);
/// The notes whose condition is true.
std::vector<std::string> texts_that_hold(const std::vector<Note>& list, const Bindings& bindings);

/// Adds transfers, fills and drops of a resolved mapping. Throws as compile_model.
void compile_rules(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                   const ResolvedModel& resolved, ModelBuilder& builder);

/// Adds one transfer per tensor, for --scheme hf.
void compile_hf(ModelBuilder& builder);
/// Adds one for each tensor that no rule of a dialect has used. Codes are decoded, to bf16 unless
/// --dtype or --cast say otherwise. Throws: unsupported (--dtype keep and codes).
void compile_rest(const MappingTable& table, const Bindings& bindings, const Json& config,
                  ModelBuilder& builder);

/// Throws unless the tensor has the rule's shape: names the axis and both extents.
void check_shape(const Catalog& catalog, const TensorInfo& tensor, const Pattern& pattern,
                 const Shape& expected, const Bindings& bindings, std::string_view pointer);

/// Throws if tensors are unmatched, unless the scheme takes the rest, or missing.
void check_all_used(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                    const ModelBuilder& builder, const std::vector<MissingTensor>& missing);

}  // namespace hfshard
