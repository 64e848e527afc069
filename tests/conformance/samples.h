#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catalog/format.h"
#include "support/temp_dir.h"

namespace hfshard::conformance {

/// An array that a checkpoint must return.
struct Expected {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;
  std::string bytes;  ///< row-major, packed
};

/// A small checkpoint on disk.
struct Sample {
  std::string what;  ///< for messages: "orbax, zstd"
  std::string path;  ///< to open
  std::vector<Expected> arrays;
  std::vector<std::string> data_files;
  bool has_checksums = false;  ///< cover every byte of its data
};

/// Makes checkpoints of a format in every way that the tests can write. Each has the arrays of
/// samples.cpp that the format claims. Empty for a format that keeps nothing. A format that writes
/// is written through its interface, and others by a builder in support.
std::vector<Sample> make_samples(const Format& format, const TempDir& dir);

}  // namespace hfshard::conformance
