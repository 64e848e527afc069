#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catalog/format.h"
#include "support/temp_dir.h"

namespace hfshard::conformance {

/// An array as a checkpoint must give it back.
struct Expected {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;
  std::string bytes;  ///< row-major, packed
};

/// A small checkpoint on disk.
struct Sample {
  std::string what;  ///< for messages: "orbax, zstd"
  std::string path;  ///< to be opened
  std::vector<Expected> arrays;
  std::vector<std::string> data_files;
  bool has_checksums = false;  ///< each byte of its data is under one
};

/// Checkpoints of a format, in every way in which the tests can write it; each holds what `arrays`
/// of this file lists, as far as the format claims it. Empty for a format that keeps nothing.
/// A format that is written is so by its own questions, another one by its builder in support.
std::vector<Sample> make_samples(const Format& format, const TempDir& dir);

}  // namespace hfshard::conformance
