#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/checkpoint.h"
#include "plan/layout/layout.h"
#include "run/moving/stage_meter.h"

#include "hfshard/verify.h"

namespace hfshard {

/// Differences from all threads.
class Findings {
 public:
  void add(Difference difference);
  /// Sorted; each once.
  std::vector<Difference> take();

 private:
  std::mutex mutex_;
  std::vector<Difference> items_;
};

/// Everything both ways of verifying share: the model laid out as the output is really cut, and
/// reading its chunks.
class Reading {
 public:
  /// `unpacked`: null unless the sources are read too; then these of their arrays are unpacked, and
  /// there is room for a chunk beside the region (to compare with it). `wanted`: leaves to be read;
  /// all without it.
  Reading(const Checkpoint& opened, const std::shared_ptr<const Model>& model, const Limits& limits,
          StageMeter& meter, const SplitArrays* split, const std::vector<bool>* wanted = nullptr);

  const Layout& layout() const noexcept { return layout_; }

  /// What of a unit is read at once: a chunk, or a slice.
  struct Part {
    std::uint32_t leaf = 0;
    Shape chunk;
    bool is_slice = false;          ///< so that the chunk, the whole leaf, is not worth its name
    std::uint64_t begin_bytes = 0;  ///< in the chunk
    std::span<std::byte> bytes;
    std::string name() const;
  };

  /// Calls `visit` with each part of a unit, whose bytes are `region`.
  void for_each_part(const UnitRef& ref, std::span<std::byte> region,
                     const std::function<void(const Part&)>& visit) const;

  /// Where a byte of a part belongs, as an index into its leaf.
  Shape index_of(const Part& part, std::uint64_t byte) const;

  /// Reads a part; a damaged or missing one is a finding and false.
  bool read(const Part& part, std::span<std::byte> out, std::span<std::byte> scratch);

  std::uint64_t fill_scratch(std::uint32_t leaf) const { return fill_scratch_[leaf]; }

  const Checkpoint& opened() const noexcept { return opened_; }

  Findings findings;

 private:
  CutLeaves cut(const Model& model, const Limits& limits, const SplitArrays* split,
                const std::vector<bool>* wanted);

  const Checkpoint& opened_;
  StageMeter& meter_;
  std::vector<std::optional<std::uint32_t>> leaf_of_;
  std::vector<std::uint64_t> fill_scratch_;
  Layout layout_;
};

}  // namespace hfshard
