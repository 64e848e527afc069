#include "target/null/null.h"

#include "hfshard/error.h"

namespace hfshard::target::null {
namespace {

class NullTarget final : public Target {
 public:
  std::string_view name() const override { return "null"; }

  ChunkForm form(const Leaf& leaf, const Grid& grid, const Encoding& /*encoding*/) const override {
    ChunkForm out;
    for (std::size_t axis = 0; axis < grid.chunk.rank(); ++axis) {
      if (grid.inner[axis] == 0) continue;
      out.cells *= static_cast<std::uint32_t>(grid.chunk[axis] / grid.inner[axis]);
    }
    out.cell_bytes = packed_bytes(leaf.dtype, grid.inner.numel());
    return out;
  }

  std::uint64_t encode(const ChunkForm& form, std::span<std::byte> stored,
                       std::span<std::byte> /*scratch*/) const override {
    HFSHARD_CHECK(stored.size() == form.stored_bytes());
    return stored.size();
  }

  std::vector<SideFile> metadata(const TreeSpec& /*tree*/,
                                 const Placements& /*placed*/) const override {
    return {};
  }

  std::string data_root() const override { return "items"; }
  std::string commit_file() const override { return {}; }

  std::unique_ptr<OpenedCheckpoint> open(const std::string& path) const override {
    throw Error(ErrorCode::unsupported, "the null format keeps nothing that could be opened")
        .in_file(path);
  }
};

}  // namespace

std::unique_ptr<Target> make_null_target() { return std::make_unique<NullTarget>(); }

}  // namespace hfshard::target::null
