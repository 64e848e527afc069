#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/diff.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// One thing that is not as it should be.
struct Difference {
  std::string leaf;    ///< dotted path; empty when the finding is about the output as a whole
  std::string chunk;   ///< chunk coordinates "0, 3", empty when the finding is about a whole leaf
  std::string tensor;  ///< source tensor, if known
  std::string what;
  std::string file{};                    ///< of the output, if known
  std::optional<ByteRange> range{};      ///< there: what is damaged
  std::optional<Shape> first{};          ///< of elements that differ from the source's, the lowest
  std::optional<ElementPlace> out{};     ///< where that is in the output; what it holds is not said
  std::optional<ElementPlace> source{};  ///< and what it is made of
};

/// What verifying an output found.
struct VerifyResult {
  std::string path;                        ///< the step directory that was verified
  std::optional<std::uint64_t> step;       ///< that was taken, of a root with steps
  std::vector<std::uint64_t> other_steps;  ///< that there are, ascending
  std::uint64_t checked_bytes = 0;
  std::uint64_t unrecorded_bytes = 0;  ///< of linked leaves without digests: not read
  std::uint64_t chunks = 0;
  std::uint64_t tensors = 0;            ///< of the source, that what was read is made of
  std::vector<Difference> differences;  ///< all of them
};

}  // namespace hfshard
