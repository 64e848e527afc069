#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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

/// The numbers of the unpacked parts of arrays (Layout::unpacked) that a unit reads, ascending.
std::vector<std::uint32_t> unpacked_by(const Layout& layout, const UnitRef& ref);

/// Arrays whose pieces cannot be taken as they come, each of their parts in memory or in a file
/// without a name, as its UnpackedForm says, for as long as tiles need it: in files those of one
/// tile at a time, in memory as many as fit. Nothing of them outlives the process.
class UnpackedArrays {
 public:
  /// Appends a source to `sources` for each part, where its bytes are read once they are there.
  /// `directory`: where the files are made; `memory_bytes`: what is had for those that fit,
  /// instead of files. `options` say when to stop.
  UnpackedArrays(const Layout& layout, std::string directory, std::uint64_t memory_bytes,
                 OpenSources& sources, const RunOptions& options);
  /// Heap that one for this layout holds (base/heap.h), with what it appends to the sources.
  static std::uint64_t heap_bytes(const Layout& layout);
  /// Makes the arrays that a unit reads ready; they stay so for as long as someone has what is
  /// returned. Tiles before it may still be read, unless an array goes to a file, or there is no
  /// memory beside theirs: then it waits until no tile has any. `arena`: the tiles'. Called in plan
  /// order by one thread. Throws: io, cancelled, as PieceReader::read.
  std::vector<std::shared_ptr<const void>> make_ready(const UnitRef& ref, Arena& arena);

 private:
  struct Part {
    const UnpackedForm* form = nullptr;
    std::uint64_t number = 0;             // of the form's
    ScratchFile* file = nullptr;          // owned by the sources
    bool used = false;                    // until the last one who had it has let it go; guarded
    std::weak_ptr<const void> known{};    // that tiles may still have
    std::shared_ptr<const void> ready{};  // for the last unit; else null
  };

  std::shared_ptr<const void> unpack(Part& part, Arena& arena);
  std::shared_ptr<const void> hold(Part& part, Arena& arena);
  void unpack_into(const Part& part, Arena& arena);
  void unpack_box(const UnpackedForm& form, const Box& box, ScratchFile& file,
                  std::span<std::byte> memory) const;

  const Layout& layout_;
  std::string directory_;
  const RunOptions& options_;
  std::optional<Arena> memory_;
  std::mutex mutex_;
  std::vector<Part> parts_;  // by number; they go before what they give back to
};

}  // namespace hfshard
