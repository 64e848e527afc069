#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "bytes/scratch_file.h"
#include "plan/layout/layout.h"
#include "run/moving/sources.h"

#include "hfshard/convert.h"

namespace hfshard {

/// The unpacked arrays (Layout::unpacked) that a unit reads, ascending.
std::vector<std::uint32_t> unpacked_by(const Layout& layout, const UnitRef& ref);

/// Arrays whose pieces cannot be taken as they come, each in memory or in a file without a name, as
/// its UnpackedForm says, for as long as tiles need it: those of one tile at a time. Nothing of
/// them outlives the process.
class UnpackedArrays {
 public:
  /// Appends a source to `sources` for each array, where its bytes are read once they are there.
  /// `directory`: where the files are made; `memory_bytes`: what is had for arrays that fit,
  /// instead of files. `options` say when to stop.
  UnpackedArrays(const Layout& layout, std::string directory, std::uint64_t memory_bytes,
                 OpenSources& sources, const RunOptions& options);
  /// Makes the arrays that a unit reads ready. Before one is unpacked, waits until no tile has
  /// memory: then nobody reads those of the tiles before, which go. Called in plan order by one
  /// thread. Throws: io, cancelled, as PieceReader::read.
  void make_ready(const UnitRef& ref, Arena& arena);

 private:
  void unpack(std::size_t number, std::span<std::byte> memory);
  void unpack_box(const UnpackedForm& form, const Box& box, ScratchFile& file,
                  std::span<std::byte> memory) const;
  void clear(std::size_t number) noexcept;

  const Layout& layout_;
  std::string directory_;
  const RunOptions& options_;
  std::optional<Arena> memory_;
  std::vector<ScratchFile*> files_;   // by place in Layout::unpacked; owned by the sources
  std::vector<Arena::Block> blocks_;  // of those that lie in memory
  std::vector<std::uint32_t> ready_;
};

}  // namespace hfshard
