#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// How reports speak of the checkpoints of a format, and what there is to say about their arrays.
struct Wording {
  std::string kind;        ///< "huggingface"
  std::string array;       ///< "tensor"
  std::string arrays;      ///< "tensors"
  std::string name;        ///< member that names an array in JSON: "name"
  bool has_cuts = false;   ///< how arrays are cut, and what the pieces went through
  bool has_files = false;  ///< in which file an array is, and where
};

/// Which weight files of a model are read, where it has several sets of them: globs on their names.
/// Without any, those that its loaders take.
struct FileGlobs {
  std::vector<std::string> take;   ///< empty: all
  std::vector<std::string> leave;  ///< of what is taken
  bool empty() const noexcept { return take.empty() && leave.empty(); }
};

/// A file of a checkpoint that is not cut into pieces.
struct StoredFile {
  std::string name;  ///< relative to the checkpoint
  std::uint64_t size_bytes = 0;
};

/// A piece of an array, and where its bytes are.
struct StoredPiece {
  Shape place;                     ///< in the array's grid
  std::string file;                ///< relative to the checkpoint
  std::optional<ByteRange> range;  ///< nothing if it is not stored
};

/// A named array of a checkpoint, and how it is cut: into a regular grid of pieces, those at the
/// far edges as large as the others. An array that lies in one file whole is one piece.
struct StoredArray {
  std::string name;  ///< of a tree: its keys, dotted
  DType dtype = DType::bf16;
  Shape shape;
  std::uint64_t size_bytes = 0;
  Shape chunk;                      ///< extents of a piece
  std::optional<Shape> inner;       ///< of the cells that a piece is cut into itself
  std::uint64_t chunks = 0;         ///< how many pieces
  std::vector<std::string> codecs;  ///< that pieces went through, in the order of encoding
  std::uint32_t file = 0;           ///< with Wording::has_files: index into CheckpointInfo::files
  std::uint64_t begin_bytes = 0;    ///< and where it begins there
  std::vector<StoredPiece> pieces;  ///< row-major; only where they were asked for
};

/// What a checkpoint consists of.
struct CheckpointInfo {
  std::string path;                        ///< as it was named
  std::optional<std::uint64_t> step;       ///< that was taken, of a root with steps
  std::vector<std::uint64_t> other_steps;  ///< that there are, ascending
  std::string writer;                      ///< what wrote it, where it says so
  Wording wording;
  std::vector<StoredArray> arrays;  ///< sorted by name
  std::vector<StoredFile> files;
  std::uint64_t size_bytes = 0;    ///< of all arrays, decoded
  std::uint64_t chunks = 0;        ///< of all arrays
  std::uint64_t elements = 0;      ///< of all arrays
  std::uint64_t parameters = 0;    ///< of them, real numbers that are no optimizer's
  std::string metadata;            ///< JSON object: what the format and config.json say of it
  std::vector<std::string> notes;  ///< ignored files and why
};

}  // namespace hfshard
