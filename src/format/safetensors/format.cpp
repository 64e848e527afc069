#include "format/safetensors/format.h"

#include <algorithm>

#include "base/text.h"
#include "format/safetensors/open.h"
#include "format/safetensors/write.h"

namespace hfshard::format::safetensors {
namespace {

constexpr std::string_view kFileEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
// torch's Hugging Face writer stores parts of tensors from one rank in such files. Source:
// pytorch/pytorch torch/distributed/checkpoint/_hf_utils.py _gen_file_name.
constexpr std::string_view kPartOfRank = "shard-[0-9]*-model-*-of-*.safetensors";

class SafetensorsFormat final : public Format {
 public:
  std::string_view name() const override { return "safetensors"; }

  // Only the files themselves mark a checkpoint, and it has one step. Output of hfshard has its
  // manifest, which is written last.
  std::optional<Found> recognise(const StorePath& path) const override {
    const auto entry = path.find();
    if (!entry || entry->kind == FileKind::dangling) return {};
    const Found found{path.name(), {}, {}};
    if (entry->kind != FileKind::directory)
      return path.name().ends_with(kFileEnding) ? std::optional(found) : std::nullopt;
    const bool here = std::ranges::any_of(path.list(), [](const std::string& name) {
      return (name.ends_with(kFileEnding) && !glob_match(kPartOfRank, name)) ||
             name.ends_with(kIndexEnding);
    });
    if (!here) return {};
    return Found{path.name(), manifest_head(path).plan_id, {}};
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override { return open_hf(path); }
  std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const override {
    check_choice(path, choice);
    return open_hf(path, choice);
  }

  bool plain() const override { return true; }

  bool writes() const override { return true; }
  std::string_view scheme() const override { return "hf"; }

  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& /*encoding*/) const override {
    check_writable(leaf);
    PieceForm out;
    out.cell_bytes = leaf.shape.numel() == 0 ? 0 : packed_bytes(leaf.dtype, grid.chunk.numel());
    return out;
  }

  std::uint64_t encode(const PieceForm& /*form*/, const ChunkOf& /*chunk*/,
                       std::span<std::byte> stored,
                       std::span<std::byte> /*scratch*/) const override {
    return stored.size();
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    if (placed.file_count() == 1) return {};
    return {{kIndexName,
             [tree, &placed](const ByteSink& sink) { write_hf_index(tree, placed, sink); }}};
  }

  FileLayout layout() const override {
    FileLayout out;
    out.has_steps = false;
    out.step_prefix = "step-";
    out.data_prefix = kDataPrefix;
    out.data_suffix = kDataSuffix;
    out.data_count = kDataCount;
    out.single_file = kSingleFile;
    out.alignment_bytes = 1;
    out.flat_names = true;
    out.whole_arrays = true;
    out.uncompressed = "tensors are stored as they are";
    out.fixed_checksum = "tensors are stored as they are";
    out.inner_chunks = false;
    out.side_directory.clear();
    out.commit_file = kManifestName;
    return out;
  }

  bool writes_name(std::string_view name) const override { return is_written_name(name); }

  ArrayFiles array_files(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> order,
                         std::uint64_t file_bytes) const override {
    return put_in_files(leaves, {order.begin(), order.end()}, file_bytes);
  }

  void write_leading(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file,
                     const ByteSink& sink) const override {
    write_header(leaves, in_file, sink);
  }
};

}  // namespace

const Format& safetensors_format() {
  static const SafetensorsFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::safetensors
