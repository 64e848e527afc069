#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// How reports describe the checkpoints of a format, and which facts their arrays have.
struct Wording {
  std::string kind;        ///< "huggingface"
  std::string array;       ///< "tensor"
  std::string arrays;      ///< "tensors"
  std::string name;        ///< member that names an array in JSON: "name"
  bool has_cuts = false;   ///< arrays have chunks and codecs
  bool has_files = false;  ///< arrays have a file and an offset
};

/// Selects the weight files of a model that has several sets, by globs on their names. Without
/// globs, hfshard reads the files that loaders of the model take.
struct FileGlobs {
  std::vector<std::string> take;   ///< all if empty
  std::vector<std::string> leave;  ///< excluded from `take`
  /// Select files by their names, as if there were no model.safetensors.index.json.
  bool ignore_index = false;
  bool empty() const noexcept { return take.empty() && leave.empty(); }
};

/// A file of a checkpoint whose arrays aren't split into pieces.
struct StoredFile {
  std::string name;  ///< relative to the checkpoint
  std::uint64_t size_bytes = 0;
};

/// A piece of an array, and the place of its bytes.
struct StoredPiece {
  Shape place;                     ///< coordinates in the array's grid
  std::string file;                ///< relative to the checkpoint
  std::optional<ByteRange> range;  ///< absent if it isn't stored
};

/// A named array of a checkpoint and its pieces. They form a regular grid, and those at the far
/// edges are as large as the others. An array that is stored whole in one file is one piece.
struct StoredArray {
  std::string name;  ///< in a tree, its dotted keys
  DType dtype = DType::bf16;
  Shape shape;
  std::uint64_t size_bytes = 0;
  Shape chunk;                      ///< shape of a piece
  std::optional<Shape> inner;       ///< shape of its inner chunks
  std::uint64_t chunks = 0;         ///< number of pieces
  std::vector<std::string> codecs;  ///< in encoding order
  std::uint32_t file = 0;           ///< in CheckpointInfo::files, if Wording::has_files
  std::uint64_t begin_bytes = 0;    ///< offset in that file
  std::vector<StoredPiece> pieces;  ///< row-major, if asked for
};

/// A named array whose description hfshard can't read, such as one of an unknown dtype.
struct UnreadableArray {
  std::string name;
  std::string why;  ///< the error's sentence
};

/// The contents of a checkpoint.
struct CheckpointInfo {
  std::string path;                        ///< as given by the user
  std::optional<std::uint64_t> step;       ///< the one that was read, if any
  std::vector<std::uint64_t> other_steps;  ///< ascending
  std::string writer;                      ///< the program that wrote it, if known
  Wording wording;
  std::vector<StoredArray> arrays;  ///< sorted by name
  std::vector<UnreadableArray> unreadable;
  std::vector<StoredFile> files;
  std::uint64_t size_bytes = 0;          ///< all arrays, decoded
  std::uint64_t chunks = 0;              ///< all arrays
  std::uint64_t elements = 0;            ///< all arrays
  std::uint64_t parameters = 0;          ///< the model's real numbers
  std::uint64_t optimizer_elements = 0;  ///< the optimizer's
  std::string metadata;                  ///< JSON object from format and config.json
  std::vector<std::string> notes;        ///< ignored files and why
};

}  // namespace hfshard
