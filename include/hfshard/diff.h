#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// The distance up to which elements count as equal. If both measures are given, either suffices.
struct DiffTolerance {
  std::optional<double> absolute{};
  std::optional<std::uint64_t> ulps{};  ///< units, for integers
  bool given() const noexcept { return absolute || ulps; }
};

/// Options of `diff`.
struct DiffOptions {
  DiffTolerance tolerance;
  /// Elements of two dtypes are compared in the narrower one, to which the other is rounded
  /// (nearest even); f16 and bf16 as f32. Without it such tensors differ, and are not read.
  bool dtype_aware = false;
  std::vector<std::string> include;  ///< globs on names; all if empty
  std::vector<std::string> exclude;
  /// config.json of the model, if neither checkpoint states its model.
  std::optional<std::string> config_text;
  std::string config_name;            ///< its path
  std::optional<std::uint64_t> step;  ///< for sides that don't name one
  std::string items;                  ///< for sides with several trees
};

/// An element in one of the checkpoints.
struct ElementPlace {
  std::string tensor;  ///< its name in that checkpoint
  Shape index;
  std::string value;  ///< decimal; of the code, if quantized
  std::string file;
  std::optional<std::uint64_t> byte;  ///< in the file, if stored plainly
  std::optional<ByteRange> range;     ///< else of the element's piece
};

/// Upper bounds of the classes in which ulps are counted. A last class counts larger differences.
inline constexpr std::array<std::uint64_t, 6> kUlpSteps{1, 2, 4, 16, 128, 1024};

/// How the elements of two tensors differ.
struct ValueDifferences {
  std::uint64_t count = 0;
  double largest_absolute = 0;     ///< except NaNs
  std::uint64_t largest_ulps = 0;  ///< except NaNs; 0 equals -0
  std::uint64_t a_nans = 0;        ///< differing elements with NaN in A
  std::uint64_t b_nans = 0;
  std::array<std::uint64_t, kUlpSteps.size() + 1> by_ulps{};
  Shape first;     ///< the lowest index that differs
  ElementPlace a;  ///< of `first`
  ElementPlace b;
};

/// A part of a tensor that can't be read.
struct DiffDamage {
  bool in_a = true;
  std::string tensor;
  std::string message;
  std::string file;
  std::optional<ByteRange> range;
  std::uint64_t places = 1;  ///< number of such parts
};

/// The result of comparing one tensor.
struct TensorDiff {
  enum class Kind : std::uint8_t { equal, values, damaged, dtype, shape, only_a, only_b };
  struct Form {
    DType dtype = DType::bf16;
    Shape shape;
  };
  Kind kind = Kind::equal;
  std::string name;
  std::optional<Form> a;  ///< absent if A lacks it
  std::optional<Form> b;
  std::optional<ValueDifferences> values;
  std::vector<DiffDamage> damage;  ///< `values` covers the rest
};
/// Returns the name as printed: `only_a`.
std::string_view to_string(TensorDiff::Kind kind) noexcept;

/// A difference that isn't in an array: an object, a node of the tree, an item, or metadata.
struct StructureDiff {
  enum class Kind : std::uint8_t { differs, damaged, only_a, only_b };
  Kind kind = Kind::differs;
  std::string name;
  std::string what;
};
/// Returns the name as printed: `only_a`.
std::string_view to_string(StructureDiff::Kind kind) noexcept;

/// One of the two checkpoints.
struct DiffedCheckpoint {
  std::string path;
  std::string kind;  ///< "huggingface"
  std::uint64_t tensors = 0;
  std::optional<std::uint64_t> step;
  std::vector<std::uint64_t> other_steps;
};

/// The result of comparing two checkpoints.
struct DiffResult {
  DiffedCheckpoint a;
  DiffedCheckpoint b;
  /// The conversion that made them comparable: "a becomes b", "both become a model". Empty if they
  /// were compared by name.
  std::string through;
  std::vector<TensorDiff> tensors;       ///< all tensors, by name
  std::vector<StructureDiff> structure;  ///< by name
  std::vector<std::string> notes;
  std::uint64_t compared_objects = 0;
  std::uint64_t compared_tensors = 0;  ///< by their elements
  std::uint64_t compared_bytes = 0;    ///< per checkpoint
  std::uint64_t differing_tensors = 0;
  std::uint64_t differing_elements = 0;
  bool equal() const noexcept { return differing_tensors == 0 && structure.empty(); }
};

}  // namespace hfshard
