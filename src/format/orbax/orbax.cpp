#include "format/orbax/orbax.h"

#include <fmt/format.h>

#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/codec.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Orbax's byte limiter refuses requests of this size. They must be less than
// `restore_concurrent_gb`, by default 96, times 10^9. Source: google/orbax
// checkpoint/orbax/checkpoint/_src/handlers/pytree_checkpoint_handler.py DEFAULT_CONCURRENT_GB,
// _src/serialization/limits.py.
constexpr std::uint64_t kRefusedRequestBytes = std::uint64_t{96} * 1000 * 1000 * 1000;

class OrbaxFormat final : public Format {
 public:
  std::string_view name() const override { return "orbax"; }

  std::optional<Found> recognise(const StorePath& path) const override {
    return find_checkpoint(path);
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    return open_orbax(path, {});
  }
  std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const override {
    return open_orbax(path, choice);
  }

  std::string why_incomplete(const StorePath& step) const override {
    return orbax::why_incomplete(step);
  }
  Beside beside(const StorePath& path, const Choice& choice) const override {
    return find_beside(path, choice);
  }

  std::vector<std::string> other_items(const StorePath& path, const Choice& choice) const override {
    return find_other_items(path, choice);
  }

  std::vector<std::string> root_files(const StorePath& root) const override {
    return find_root_files(root);
  }

  bool is_tree(const StorePath& path) const override { return is_item_place(path); }
  bool has_items(const StorePath& path) const override { return is_step_with_items(path); }

  std::vector<StorePath> parsed_files(const StorePath& path) const override {
    if (!is_tree(path) && !has_items(path)) return {};
    Choice main;
    main.usual_items = true;
    return {locate(path, main).item / kTreeFile};
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

  std::uint64_t encode(const PieceForm& form, const ChunkOf& /*chunk*/, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return zarr::seal_chunk(form, stored, scratch);
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return side_files(tree, placed);
  }

  FileLayout layout() const override {
    FileLayout out;
    out.item = kItemDirectory;
    out.structure = true;
    out.data_prefix = kDataPrefix;
    out.linked_prefix = kDataPrefix;
    out.commit_file = kManifestFile;
    out.refused_request_bytes = kRefusedRequestBytes;
    return out;
  }
};

}  // namespace

const Format& orbax_format() {
  static const OrbaxFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::orbax
