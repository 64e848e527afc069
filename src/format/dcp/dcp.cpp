#include "format/dcp/dcp.h"

#include "format/dcp/metadata.h"
#include "format/dcp/open.h"
#include "format/dcp/write.h"

namespace hfshard::format::dcp {
namespace {

// fully_shard splits dim 0. Tensor parallelism splits dim 1 as often as dim 0. Source:
// pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param.py.
constexpr const char* kAxisRules = R"([["dim_0", ["fsdp"]], ["dim_1", ["tensor"]]])";

class DcpFormat final : public Format {
 public:
  std::string_view name() const override { return "dcp"; }

  std::optional<Found> recognise(const StorePath& path) const override {
    return find_checkpoint(path);
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    return open_dcp(path, {});
  }
  std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const override {
    return open_dcp(path, choice);
  }

  std::string why_incomplete(const StorePath& step) const override {
    return dcp::why_incomplete(step);
  }

  std::vector<StorePath> parsed_files(const StorePath& path) const override {
    return {path / kMetadataFile};
  }

  bool writes() const override { return true; }
  std::string_view scheme() const override { return "hf"; }

  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    return piece_form(leaf, grid, encoding);
  }

  std::uint64_t encode(const PieceForm& form, const ChunkOf& chunk, std::span<std::byte> stored,
                       std::span<std::byte> /*scratch*/) const override {
    return seal_piece(form, chunk, stored);
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    return {{kMetadataFile,
             [tree, &placed](const ByteSink& sink) { write_metadata(tree, placed, sink); }}};
  }

  FileLayout layout() const override {
    FileLayout out;
    out.has_steps = false;
    out.step_prefix = kStepPrefix;
    out.data_prefix = kDataPrefix;
    out.data_suffix = kDataSuffix;
    out.flat_names = true;
    out.objects = true;
    out.uncompressed = "torch reads only uncompressed items";
    out.fixed_checksum = "every item has a CRC";
    out.inner_chunks = false;
    out.ceil_shards = true;
    out.axis_rules = kAxisRules;
    out.side_directory.clear();
    out.commit_file = kManifestName;
    return out;
  }

  bool writes_name(std::string_view name) const override { return is_written_name(name); }
};

}  // namespace

const Format& dcp_format() {
  static const DcpFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::dcp
