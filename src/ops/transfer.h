#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/array.h"
#include "ops/decode.h"
#include "ops/index_map.h"
#include "ops/value.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A counter that picks the source tensor (layers, experts); target offset advances by dst_step
/// elements.
struct Loop {
  std::uint64_t extent = 1;
  std::int64_t dst_step = 0;
};

/// The decoder of a quantised source, and its scale tensors.
struct Decode {
  BlockScale form;
  std::vector<std::uint32_t> scales;  ///< indices into the catalog's tensors, as Transfer::sources

  /// Upper bound of the bytes of scales that a run of `count` elements needs.
  std::uint64_t most_scale_bytes(std::uint64_t count) const noexcept {
    return most_scales(form, count) * size_bits(form.scale_dtype) / 8;
  }
};

/// A run of packed codes is widened to whole bytes: by less than this many codes.
inline constexpr std::uint64_t kCodesAround = 2;

/// One compiled rule: sources (row-major over loops, outermost first) all go through the same map.
/// The target offset of element i of source (j0, j1, ..) is sum(jk * loops[k].dst_step) + map
/// target offset.
struct Transfer {
  std::uint32_t target = 0;  ///< index into CompiledModel::leaves
  std::uint32_t rule = 0;    ///< index into CompiledModel::rules
  std::vector<Loop> loops;
  std::vector<std::uint32_t>
      sources;         ///< indices into the catalog's tensors; size = product of loop extents
  Shape source_shape;  ///< of every source; of packed codes: in codes
  DType source_dtype = DType::bf16;  ///< of packed codes: f4, whatever they are stored as
  IndexMap map;                      ///< within one source; digits never span two axes of the leaf
  Value value;
  std::shared_ptr<const Decode> decode;  ///< null: the source holds values; most do
  bool copy =
      false;  ///< the source elements are used by another rule too, which counts as their owner
  /// Elements of a row, the unit that is hashed: the last axis of a source is whole rows; 0: it is
  /// one (ops/source_rows.h).
  std::uint32_t row = 0;

  /// Whether elements are computed rather than moved.
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

/// A region of a source tensor that goes nowhere, by name. Only the source side of the map is used.
struct Drop {
  std::uint32_t source = 0;
  std::uint32_t rule = 0;
  IndexMap map;
  std::string why;
  std::optional<std::uint32_t> same_as;  ///< catalog index; the run checks that the bytes agree
};

/// Everything the mapping decides, compiled against one catalog: grows with names, never with
/// elements.
struct CompiledModel {
  std::string family;  ///< "qwen3"; "hf" for --scheme hf
  std::string scheme;  ///< one of known_schemes()
  bool stacked = false;
  std::vector<std::string>
      rules;  ///< rule pointers, `mappings/qwen3.json#/schemes/maxtext/layer/rules/4`
  std::vector<Leaf> leaves;  ///< sorted by path
  std::vector<Transfer> transfers;
  std::vector<Fill> fills;
  std::vector<Drop> drops;
  std::string axis_rules;          ///< the scheme's default logical axis rules, as JSON text
  std::vector<std::string> notes;  ///< to be printed: "load as llama3.1-*", ...
  std::vector<std::string>
      model_names;  ///< MaxText model_name values that fit, best first; may be empty
  std::vector<std::string> load_words;  ///< what its loader is told beside the place: NAME=VALUE
  std::string config_text;  ///< config.json of the layers that are taken; empty: the source's
  /// Of rules that lead from the leaves of another scheme: the model's own tensors, that they lead
  /// through. Empty of all others.
  std::vector<Array> through;
  /// Of a model's files, the dialect of scheme "hf" that their tensors have the names of. Empty of
  /// names that are the files' own, and of trees.
  std::string source_dialect;
  /// Path of the record of how the source itself was made, to be carried along; empty: none.
  std::string origin;
};

}  // namespace hfshard
