#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "run/target.h"

#include "hfshard/catalog.h"
#include "hfshard/convert.h"

namespace hfshard {

/// One chunk or tensor that cannot be read.
struct Damage {
  std::string tensor;
  std::optional<Shape> chunk;  ///< its place in the grid
  ErrorCode code = ErrorCode::corrupt;
  std::string message;
  std::string file;
  std::optional<ByteRange> range;
};

/// Everything that was found. `items` may be cut short; `count` is not, unless `more` says so.
struct DamageList {
  std::vector<Damage> items;
  std::uint64_t count = 0;
  std::uint64_t checked = 0;
  bool more = false;  ///< the search gave up after kMostMissing
  std::string unit = "chunks";
};

/// A checkpoint that lacks more chunks than this is not searched further: a grid that a damaged
/// index makes up can have any number of chunks, those that exist are bounded by the index.
inline constexpr std::uint64_t kMostMissing = 1'000'000;

/// Whether the directory's entries are those of an Orbax root, step or item directory. Throws: io.
bool is_orbax(const std::string& path);
/// Throws: as Target::open.
std::unique_ptr<OpenedCheckpoint> open_orbax(const std::string& path);

/// The step directory with hfshard.json that `out` means: itself, its parent (of an item directory)
/// or its highest step. Empty if there is none. Throws: io.
std::string step_directory(const std::string& out);

/// Number of chunks of a leaf's grid.
std::uint64_t chunk_total(const OpenedLeaf& leaf);
/// Looks up the key of every chunk; lists the first `listed` that are missing, counts all.
DamageList find_missing_chunks(const OpenedCheckpoint& opened, std::size_t listed);
/// Reads every chunk; a damaged one does not end it. Memory: one chunk and its scratch.
/// Throws: what is no damage (limit, internal, ...).
DamageList read_chunks(const OpenedCheckpoint& opened, const std::string& root, Reporter& reporter);
/// Reads every byte of every tensor, likewise. Memory: one buffer.
DamageList read_tensors(const Catalog& catalog, Reporter& reporter);

/// Model type, architectures and family of a source's config, as far as it has them.
Json config_facts(const Catalog& catalog);

}  // namespace hfshard
