#include "target/orbax/orbax.h"

#include <fmt/format.h>

#include "target/orbax/metadata.h"
#include "target/orbax/open.h"
#include "target/orbax/zarr/array.h"
#include "target/orbax/zarr/codec.h"

#include "hfshard/error.h"

namespace hfshard::target::orbax {
namespace {

class OrbaxTarget final : public Target {
 public:
  std::string_view name() const override { return "orbax"; }

  ChunkForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    try {
      const zarr::Array array = zarr::make_array(leaf.dtype, leaf.shape, grid, encoding);
      ChunkForm out = array.form();
      out.scratch_bytes = zarr::seal_scratch_bytes(array);
      return out;
    } catch (Error& error) {  // only here is the leaf known
      throw error.in_tensor(leaf.path);
    }
  }

  std::uint64_t encode(const ChunkForm& form, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return zarr::seal_chunk(form, stored, scratch);
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return side_files(tree, placed);
  }

  std::string data_root() const override { return std::string(kItemDirectory); }

  std::string commit_file() const override { return std::string(kManifestFile); }

  std::unique_ptr<OpenedCheckpoint> open(const std::string& path) const override {
    return open_checkpoint(path);
  }
};

}  // namespace

std::unique_ptr<Target> make_orbax_target() { return std::make_unique<OrbaxTarget>(); }

}  // namespace hfshard::target::orbax
