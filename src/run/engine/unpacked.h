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
#include "bytes/local/scratch_file.h"
#include "plan/layout/layout.h"
#include "run/engine/sources.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Returns the numbers of the unpacked parts of arrays (Layout::unpacked) that a unit reads,
/// ascending.
std::vector<std::uint32_t> unpacked_by(const Layout& layout, const UnitRef& ref);

/// Arrays whose pieces feed several units, unpacked in parts while tiles need them, as their
/// UnpackedForm says. Each part is in memory or in an unnamed file. Files have the parts of one
/// tile at a time, and memory has as many as fit. They never outlive the process.
class UnpackedArrays {
 public:
  /// Appends a source to `sources` for each part, for reading its bytes once it is ready.
  /// `directory` is the place of files, and `memory_bytes` is for parts that fit. `options` say
  /// when to stop.
  UnpackedArrays(const Layout& layout, std::string directory, std::uint64_t memory_bytes,
                 OpenSources& sources, const RunOptions& options);
  /// Returns the heap bytes for this layout (base/heap.h), with the appended sources.
  static std::uint64_t heap_bytes(const Layout& layout);
  /// Makes the arrays that a unit reads ready, as long as the returned objects live. Earlier tiles
  /// can still read theirs. But if an array goes to a file, or memory doesn't suffice, waits until
  /// no tile has any. `arena` is the tiles'. Called in plan order by one thread. Throws: io,
  /// cancelled, as PieceReader::read.
  std::vector<std::shared_ptr<const void>> make_ready(const UnitRef& ref, Arena& arena);

 private:
  struct Part {
    const UnpackedForm* form = nullptr;
    std::uint64_t number = 0;             // of the form
    ScratchFile* file = nullptr;          // owned by the sources
    bool used = false;                    // a tile can still have it; guarded
    std::weak_ptr<const void> known{};    // object that tiles can still have
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
  std::vector<Part> parts_;  // by number; freed before memory_
};

}  // namespace hfshard
