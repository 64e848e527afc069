#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/quantization.h"
#include "ops/transfer.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// The use of each tensor of the catalog.
enum class TensorUse : std::uint8_t { none, excluded, mapped, dropped };

/// A tensor that a rule names and the catalog lacks.
struct MissingTensor {
  std::string name;
  std::string rule;
  bool untied = false;  ///< needed since embeddings aren't tied
};

/// Returns whether a rule only applies to models whose output head is a tensor of its own.
bool is_of_untied(const MappingTable& table, const Rule& rule);

/// The reason why --include or --exclude leave a tensor out.
struct LeftOut {
  std::string_view flag;
  std::string why;
};
/// Empty for tensors that are used.
std::optional<LeftOut> left_out(const MappingOptions& options, std::string_view name);
/// Throws: usage, with the location, if a glob of the two matches no tensor.
void check_globs(const MappingOptions& options, const Catalog& catalog,
                 const std::string& location);

/// Returns the glob of --drop that accepts the loss of this array, or null.
const std::string* accepted_loss(const MappingOptions& options, std::string_view name);
/// Returns the reason `--drop "GLOB"`.
std::string accepted_why(const std::string& glob);
inline constexpr std::string_view kDropFlag = "--drop";
/// Returns a hint for arrays whose values would be lost: which of --untie and --drop keep or drop
/// them. `whole` is false if --untie can't keep them, since most of each array is written.
std::string drop_hint(const MappingOptions& options, const std::vector<std::string>& names,
                      bool whole = true);
/// Returns `; 2 others are alike` for a list whose first item is named. Empty for one item.
std::string and_others(std::size_t count);

/// A compiled model in progress. Every scheme uses it.
class ModelBuilder {
 public:
  ModelBuilder(const Catalog& catalog, const MappingOptions& options);

  /// Applies --include and --exclude. Each left out tensor becomes a named drop.
  void exclude(const MappingOptions& options);
  /// Leaves out the tensors with these prefixes, in the same way.
  void leave_out(const std::vector<std::string>& prefixes, const std::string& why);
  /// Gives leaves names other than their rules'.
  void rename_leaves(std::vector<ResolvedRenaming> renames) { renames_ = std::move(renames); }
  /// Returns the name of a leaf: renamed, after --prefix.
  std::string leaf_name(std::string_view name) const {
    return options_.prefix + renamed(renames_, name);
  }
  std::uint32_t rule(std::string_view pointer);
  bool excluded(std::uint32_t tensor) const { return uses_[tensor] == TensorUse::excluded; }
  void mark(std::uint32_t tensor, TensorUse use) { uses_[tensor] = use; }
  TensorUse use(std::uint32_t tensor) const { return uses_[tensor]; }
  /// Drops a whole tensor.
  void drop_whole(std::uint32_t tensor, std::uint32_t rule, std::string why);
  /// Sorts the leaves by path. Checks that no path is the prefix of another, and that every cast
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
  bool has_objects() const;

  const Catalog& catalog_;
  MappingOptions options_;
  CompiledModel model_;
  std::vector<ResolvedRenaming> renames_;
  std::vector<TensorUse> uses_;
  std::unordered_map<std::string, std::uint32_t> rules_;
};

inline constexpr std::string_view kPassHf = "pass --scheme hf";
/// Throws: unsupported, if the config names a quantization without a decoder. `keep` is the way to
/// keep the codes.
void check_quantization(const Json& config, const std::string& location,
                        std::string_view keep = kPassHf);
/// Returns whether all quantized weights have zero points, as the config states
/// (compressed-tensors' `symmetric`).
bool has_zero_points(const Json& config);
/// Returns the widths of packed integers (compressed-tensors' pack-quantized) that the config
/// states. Throws: unsupported, if one of them is neither 4 nor 8.
std::set<std::int64_t> packed_widths(const Json& config, const std::string& location);
/// Returns the error for tensors of such a method.
Error undecoded(const UndecodedMethod& method, std::string_view keep = kPassHf);

/// Notes which of the original model's tensors a tree doesn't have, if any.
void note_left_out(std::vector<std::string> names, std::size_t of_tensors, CompiledModel& model);

/// Returns whether codes or their scales have such a name, in any method.
bool is_name_of_codes(std::string_view name);

/// Returns the config without its quantization_config, at the top and in its text part.
Json without_quantization(Json config);

/// Returns the config without its quantization_config, if no tensor is quantized. It is left over
/// from before the weights were merged or cast. Empty if it doesn't have one.
std::optional<Json> without_leftover(const Json& config, const Catalog& catalog);
/// Does the same with names alone.
std::optional<Json> without_leftover(const Json& config, const NameList& list);

/// The rule that drops tensors that belong to codes.
inline constexpr std::string_view kBesideCodes = "mappings/common.json#/quantization/drop";
/// Drops unused tensors that belong to codes, such as scales of activations.
void drop_beside_codes(ModelBuilder& builder);

/// A rule's settings for the dtype of its leaf.
struct DTypeRule {
  std::optional<DType> floor;
  std::optional<DType> stays;
};
/// Returns the dtype of a leaf whose source has the dtype `natural`, after --dtype and --cast. Only
/// a cast can go below the rule's dtype. Integers always become the rule's dtype.
DType leaf_dtype(const MappingOptions& options, std::string_view path, DType natural,
                 const DTypeRule& rule);

/// Checks a dotted leaf path. Throws: unsupported (empty component, '/').
void check_path(const std::string& path);

/// Returns the offset of a transfer's source in its leaf. The loops count row-major.
std::uint64_t loop_offset(const Transfer& transfer, std::uint64_t number) noexcept;

/// Returns whether a leaf of this shape is one whole array of the source, in the same order and
/// without a computation. It can be cast.
bool is_one_array(const Transfer& transfer, const Shape& leaf);

/// Returns the value y = x * mul + add, solved for x.
Value inverse_value(const Value& value);
/// Combines two value functions. A factor and its inverse leave values as they are.
Value both_values(const Value& first, const Value& second);

/// Returns for each leaf of `forward` whether it comes from tensors, and the user left out all of
/// them.
std::vector<bool> left_out_leaves(const CompiledModel& forward, const Catalog& source,
                                  const MappingOptions& options);

/// Returns the claims for a lossless export from a tree: copies, repeats and fills of `forward`,
/// whose leaves are `arrays` of the tree. Those of left_out_leaves are `unwanted`. Null if there is
/// nothing to compare. Throws: unsupported (a copy that can't be traced to the output).
std::shared_ptr<const CompiledModel> claims_of(const CompiledModel& forward, const Catalog& source,
                                               const Catalog& tree,
                                               const std::vector<std::uint32_t>& arrays,
                                               const std::vector<bool>& unwanted,
                                               const MappingOptions& options);
/// Throws unless every element of the leaves is computed exactly once: unsupported.
void check_claims_cover(const CompiledModel& claims, const Catalog& tree);

/// Returns the model if its proof succeeds. Throws: bad_input, with the first finding of prove().
CompiledModel proved(const Catalog& catalog, CompiledModel model);

/// The rule that drops the tensors of layers that the model no longer has.
inline constexpr std::string_view kNumLayers = "--num-layers";

/// Prefix of notes on values that were rounded before an export.
inline constexpr std::string_view kNotExact = "not exact";

/// Returns the path of a source's config.json, for errors.
std::string config_path(const std::string& location);
/// Returns the family of a config, the user's own first. Throws: unsupported, with similar names;
/// bad_input, if a requested mapping isn't the model's.
FamilyFile family_of(const Json& config, const std::string& location,
                     const std::vector<MappingFile>& own);
/// Returns the requested scheme, or dialect of scheme "hf". Throws: unsupported, with the existing
/// ones.
const Scheme& scheme_of(const MappingTable& table, const MappingOptions& options);
/// Returns the options, with separate layers if the scheme has no others.
MappingOptions in_layout(const MappingOptions& asked, const Scheme& scheme);
/// Returns the notes whose condition is true.
std::vector<std::string> texts_that_hold(const std::vector<Conditional>& list,
                                         const Bindings& bindings);

/// Adds transfers, fills and drops of a resolved mapping. Throws: as compile_model.
void compile_rules(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                   const ResolvedModel& resolved, ModelBuilder& builder);

/// Adds one transfer per tensor, for --scheme hf.
void compile_hf(ModelBuilder& builder);
/// Adds one for each tensor that a dialect's rules haven't used. Decodes codes to bf16, unless
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
