#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/diff.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// One difference between an output and its record or source.
struct Difference {
  std::string leaf;    ///< dotted path; empty for the whole output
  std::string chunk;   ///< coordinates "0, 3"; empty for the whole leaf
  std::string tensor;  ///< source tensor, if known
  std::string what;
  std::string file{};                    ///< of the output, if known
  std::optional<ByteRange> range{};      ///< damaged bytes of `file`
  std::optional<Shape> first{};          ///< lowest index that differs
  std::optional<ElementPlace> out{};     ///< of `first`, without its value
  std::optional<ElementPlace> source{};  ///< of `first`
};

/// The result of verifying an output.
struct VerifyResult {
  std::string path;                        ///< the step's directory
  std::optional<std::uint64_t> step;       ///< the one that was read, if any
  std::vector<std::uint64_t> other_steps;  ///< ascending
  std::uint64_t checked_bytes = 0;
  std::uint64_t unrecorded_bytes = 0;  ///< linked without digests, not read
  std::uint64_t chunks = 0;
  std::uint64_t tensors = 0;  ///< source tensors of the checked leaves
  std::uint64_t objects = 0;
  std::uint64_t files = 0;  ///< recorded files except data files
  std::vector<Difference> differences;
};

}  // namespace hfshard
