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

/// How far apart elements may be that count as equal: by either measure that is given.
struct DiffTolerance {
  std::optional<double> absolute{};
  std::optional<std::uint64_t> ulps{};  ///< numbers of the dtype between them; of integers units
  bool given() const noexcept { return absolute || ulps; }
};

/// What `diff` is asked.
struct DiffOptions {
  DiffTolerance tolerance;
  /// Elements of two dtypes are compared in the narrower one, to which the other is rounded
  /// (nearest even); f16 and bf16 as f32. Without it such tensors differ, and are not read.
  bool dtype_aware = false;
  std::vector<std::string> include;  ///< globs on names; empty: all
  std::vector<std::string> exclude;
  /// config.json of the model, where neither checkpoint says of which it is.
  std::optional<std::string> config_text;
  std::string config_name;  ///< its path
};

/// An element in one of the checkpoints.
struct ElementPlace {
  std::string tensor;  ///< as it is called there
  Shape index;
  std::string value;  ///< in decimal; of codes, that of the code
  std::string file;
  std::optional<std::uint64_t> byte;  ///< in the file, where elements lie there as they are
  std::optional<ByteRange> range;     ///< else of the piece that has it
};

/// Differences of 1, 2, .. at most 1024 ulps are counted in steps, and those beyond.
inline constexpr std::array<std::uint64_t, 6> kUlpSteps{1, 2, 4, 16, 128, 1024};

/// How the elements of two tensors differ.
struct ValueDifferences {
  std::uint64_t count = 0;
  double largest_absolute = 0;     ///< of those where neither is a NaN
  std::uint64_t largest_ulps = 0;  ///< of the same; 0 and -0 are none apart
  std::uint64_t a_nans = 0;        ///< that are no NaN, or another one, in the other
  std::uint64_t b_nans = 0;
  std::array<std::uint64_t, kUlpSteps.size() + 1> by_ulps{};
  Shape first;     ///< the lowest index
  ElementPlace a;  ///< where that is
  ElementPlace b;
};

/// What of a tensor cannot be read.
struct DiffDamage {
  bool in_a = true;
  std::string tensor;
  std::string message;
  std::string file;
  std::optional<ByteRange> range;
  std::uint64_t places = 1;  ///< how many of its parts were so
};

/// What comparing one tensor found.
struct TensorDiff {
  enum class Kind : std::uint8_t { equal, values, damaged, dtype, shape, only_a, only_b };
  struct Form {
    DType dtype = DType::bf16;
    Shape shape;
  };
  Kind kind = Kind::equal;
  std::string name;
  std::optional<Form> a;  ///< absent: it is not there
  std::optional<Form> b;
  std::optional<ValueDifferences> values;
  std::vector<DiffDamage> damage;  ///< what could be read is in `values`
};
/// Name as printed: `only_a`.
std::string_view to_string(TensorDiff::Kind kind) noexcept;

/// One of the two.
struct DiffedCheckpoint {
  std::string path;
  std::string kind;  ///< "huggingface"
  std::uint64_t tensors = 0;
  std::optional<std::uint64_t> step;
  std::vector<std::uint64_t> other_steps;
};

/// What comparing two checkpoints found.
struct DiffResult {
  DiffedCheckpoint a;
  DiffedCheckpoint b;
  /// How they were brought together, if not by their names: "a becomes b", "both become a model".
  std::string through;
  std::vector<TensorDiff> tensors;  ///< all that were compared, by name
  std::vector<std::string> notes;
  std::uint64_t compared_tensors = 0;  ///< whose elements were compared
  std::uint64_t compared_bytes = 0;    ///< of each
  std::uint64_t differing_tensors = 0;
  std::uint64_t differing_elements = 0;
  bool equal() const noexcept { return differing_tensors == 0; }
};

}  // namespace hfshard
