#include "format/null/null.h"

#include "hfshard/error.h"

namespace hfshard::format::null {
namespace {

class NullFormat final : public Format {
 public:
  std::string_view name() const override { return "null"; }

  std::optional<Found> recognise(const StorePath& /*path*/) const override { return {}; }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    throw Error(ErrorCode::unsupported, "the null format can't be opened").in_file(path.text());
  }

  bool writes() const override { return true; }

  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& /*encoding*/) const override {
    PieceForm out;
    for (std::size_t axis = 0; axis < grid.chunk.rank(); ++axis) {
      if (grid.inner[axis] == 0) continue;
      out.cells *= static_cast<std::uint32_t>(grid.chunk[axis] / grid.inner[axis]);
    }
    out.cell_bytes = packed_bytes(leaf.dtype, grid.inner.numel());
    return out;
  }

  std::uint64_t encode(const PieceForm& form, const ChunkOf& /*chunk*/, std::span<std::byte> stored,
                       std::span<std::byte> /*scratch*/) const override {
    HFSHARD_CHECK(stored.size() == form.stored_bytes());
    return stored.size();
  }

  std::vector<SideFile> metadata(const TreeSpec& /*tree*/,
                                 const Placements& /*placed*/) const override {
    return {};
  }

  FileLayout layout() const override {
    FileLayout out;
    out.structure = true;  // nothing is kept, so nothing is lost
    return out;
  }
  bool discards() const override { return true; }
};

}  // namespace

const Format& null_format() {
  static const NullFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::null
