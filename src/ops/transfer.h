#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/array.h"
#include "catalog/tree_structure.h"
#include "ops/decode.h"
#include "ops/index_map.h"
#include "ops/value.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A counter that selects the source tensor (layers, experts). The target offset advances by
/// dst_step elements.
struct Loop {
  std::uint64_t extent = 1;
  std::int64_t dst_step = 0;
};

/// The decoder of a quantized source, and the tensors that it needs. They are indices into the
/// catalog's tensors, like Transfer::sources.
struct Decode {
  BlockScale form;
  std::vector<std::uint32_t> scales;
  std::vector<std::uint32_t> zeros{};  ///< empty without BlockScale::zeros
  /// One f32 element each. Empty without BlockScale::factor.
  std::vector<std::uint32_t> factors{};

  /// Returns all three lists.
  std::array<const std::vector<std::uint32_t>*, 3> lists() const noexcept {
    return {&scales, &zeros, &factors};
  }
  /// Calls `visit` with each tensor in the lists.
  template <typename Visit>
  void for_each_tensor(const Visit& visit) const {
    for (const auto* list : lists()) {
      for (const std::uint32_t tensor : *list) visit(tensor);
    }
  }
  /// Calls `visit` with the tensors for one source.
  template <typename Visit>
  void for_each_tensor_of(std::size_t source, const Visit& visit) const {
    for (const auto* list : lists()) {
      if (!list->empty()) visit((*list)[source]);
    }
  }
  /// Returns an upper bound of the bytes of scales for a run of `count` elements.
  std::uint64_t most_scale_bytes(std::uint64_t count) const noexcept {
    return most_scales(form, count) * size_bits(form.scale_dtype) / 8;
  }
};

/// A run of packed codes is widened to whole bytes, by fewer codes than this.
inline constexpr std::uint64_t kCodesAround = 2;

/// One compiled rule. Its sources (row-major over loops, outermost first) all use the same map. The
/// target offset of element i of source (j0, j1, ..) is sum(jk * loops[k].dst_step) + map target
/// offset.
struct Transfer {
  std::uint32_t target = 0;  ///< index into CompiledModel::leaves
  std::uint32_t rule = 0;    ///< index into CompiledModel::rules
  std::vector<Loop> loops;
  /// Indices into the catalog's tensors, as many as the product of loop extents.
  std::vector<std::uint32_t> sources;
  Shape source_shape;                ///< of every source; packed codes: codes
  DType source_dtype = DType::bf16;  ///< f4 for packed codes
  /// Within one source. Digits never span two axes of the leaf.
  IndexMap map;
  Value value;
  std::shared_ptr<const Decode> decode;  ///< null, as mostly: the source has values
  /// Another rule also uses the source elements, and counts as their owner.
  bool copy = false;
  /// Elements of a row, the unit that is hashed. The last axis of a source consists of whole rows.
  /// 0 if it is one row (ops/source_rows.h).
  std::uint32_t row = 0;

  /// Returns whether elements are computed rather than moved.
  bool converts(DType target_dtype) const noexcept {
    return decode || !value.empty() || source_dtype != target_dtype;
  }
};

/// A constant in a region of a leaf. Only the target side of the map is used (src steps are 0).
struct Fill {
  std::uint32_t target = 0;
  std::uint32_t rule = 0;
  IndexMap map;
  double scalar = 0;
};

/// A region of a source tensor that isn't written, by name. Only uses the source side of the map.
struct Drop {
  std::uint32_t source = 0;
  std::uint32_t rule = 0;
  IndexMap map;
  std::string why;
  /// Catalog index. The run checks that the bytes are equal.
  std::optional<std::uint32_t> same_as;
  /// The shape that these integers must state. The run checks it.
  std::optional<Shape> states;
};

/// An object of the source that isn't written, by name.
struct LeftOutObject {
  std::string name;
  std::string why;
};

/// All decisions of the mapping, compiled against one catalog. Grows with tensor names, never with
/// elements.
struct CompiledModel {
  std::string family;  ///< "qwen3"; kNoFamily for --scheme hf
  std::string scheme;  ///< one of known_schemes()
  bool stacked = false;
  bool keeps_codes = false;  ///< codes and scales become leaves
  /// Rule pointers: `mappings/qwen3.json#/schemes/maxtext/layer/rules/4`.
  std::vector<std::string> rules;
  std::vector<Leaf> leaves;  ///< sorted by path
  std::vector<Transfer> transfers;
  std::vector<Fill> fills;
  std::vector<Drop> drops;
  std::string axis_rules;          ///< the scheme's default, as JSON text
  std::vector<std::string> notes;  ///< to be printed: "load as llama3.1-*", ...
  /// Computations of the loader that differ from config.json.
  std::vector<std::string> warnings;
  /// MaxText model_name values that fit, best first. Can be empty.
  std::vector<std::string> model_names;
  /// Arguments for the loader in addition to the place: NAME=VALUE.
  std::vector<std::string> load_words;
  std::string load_note;  ///< a sentence about load_words
  /// Scheme whose loader takes it, if `scheme` doesn't tell: for a training state.
  std::string loader;
  /// The config.json for the layers in use. Empty if the source's is right.
  std::string config_text;
  /// Leaves of the model that --include or --exclude leave out of the output.
  std::uint64_t left_out_leaves = 0;
  /// Source tensors that --exclude leaves out and the model in config.json doesn't have.
  std::uint64_t left_out_others = 0;
  /// The model's own tensors, if rules lead through them from the leaves of another scheme.
  /// Otherwise empty.
  std::vector<Array> through;
  /// The dialect of scheme "hf" that a model's files use for tensor names. Empty if the names are
  /// the files' own, and for trees.
  std::string source_dialect;
  /// Objects of the catalog that the output keeps, by index, ascending.
  std::vector<std::uint32_t> objects;
  std::vector<LeftOutObject> left_out;  ///< the others, sorted by name
  /// The output has the source's names, so it keeps Catalog::nested.
  bool keeps_nested = false;
  /// Path of the record of the source's own origin, which is copied. Can be empty.
  std::string origin;
  /// The structure of the source's tree for a reshard, whose arrays have the names of leaves.
  /// Otherwise null.
  std::shared_ptr<const TreeStructure> structure;
  /// The claims about arrays of the source that make the output lossless. Each leaf is such an
  /// array, computed from the output. A run compares them. Null without claims.
  std::shared_ptr<const CompiledModel> claims;
};

}  // namespace hfshard
