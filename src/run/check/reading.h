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
#include "run/engine/stage_meter.h"

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

/// The common part of both ways of verifying. It lays out the model as the output is split, and
/// reads its chunks.
class Reading {
 public:
  /// `split`: arrays of the sources to unpack, or null if the sources aren't read. If they are,
  /// scratch memory has room for a chunk to compare. `wanted`: leaves to read, or null for all.
  Reading(const Checkpoint& opened, const std::shared_ptr<const Model>& model, const Limits& limits,
          StageMeter& meter, const SplitArrays* split, const std::vector<bool>* wanted = nullptr);

  const Layout& layout() const noexcept { return layout_; }

  /// A part of a unit that is read at once: a chunk, or a slice.
  struct Part {
    std::uint32_t leaf = 0;
    Shape chunk;
    bool is_slice = false;          ///< `chunk` is the whole leaf
    std::uint64_t begin_bytes = 0;  ///< in the chunk
    std::span<std::byte> bytes;
    std::string name() const;
  };

  /// Calls `visit` with each part of a unit, whose bytes are `region`.
  void for_each_part(const UnitRef& ref, std::span<std::byte> region,
                     const std::function<void(const Part&)>& visit) const;

  /// Returns the index in the leaf for a byte of a part.
  Shape index_of(const Part& part, std::uint64_t byte) const;

  /// Reads a part. If it is damaged or missing, adds a finding and returns false.
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
