#include "format/orbax/orbax.h"

#include <fmt/format.h>

#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/codec.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

class OrbaxFormat final : public Format {
 public:
  std::string_view name() const override { return "orbax"; }

  std::optional<Found> recognise(const std::string& path) const override {
    return find_checkpoint(path);
  }

  std::unique_ptr<Checkpoint> open(const std::string& path) const override {
    return open_orbax(path);
  }

  bool writes() const override { return true; }

  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    try {
      const zarr::Array array = zarr::make_array(leaf.dtype, leaf.shape, grid, encoding);
      PieceForm out = array.form();
      out.scratch_bytes = zarr::seal_scratch_bytes(array);
      return out;
    } catch (Error& error) {  // only here is the leaf known
      throw error.in_tensor(leaf.name);
    }
  }

  std::uint64_t encode(const PieceForm& form, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return zarr::seal_chunk(form, stored, scratch);
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return side_files(tree, placed);
  }

  std::string data_root() const override { return std::string(kItemDirectory); }

  std::string commit_file() const override { return std::string(kManifestFile); }
  bool committed_by(const std::string& item, const std::string& plan_id) const override {
    return is_manifest_of(item, plan_id);
  }
};

}  // namespace

const Format& orbax_format() {
  static const OrbaxFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::orbax
