#include "format/torch/torch.h"

#include <string>

#include "format/torch/open.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

class TorchFormat final : public Format {
 public:
  std::string_view name() const override { return "torch"; }

  std::optional<Found> recognise(const StorePath& path) const override {
    if (!has_torch_model(path)) return std::nullopt;
    return Found{path.name(), {}, {}};
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    return open_torch(path);
  }
  std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const override {
    check_choice(path, choice);
    return open_torch(path, choice);
  }

  bool takes_root() const override { return true; }
  bool plain() const override { return true; }
  bool writes() const override { return false; }
  std::string_view scheme() const override { return "hf"; }

  PieceForm form(const Leaf& /*leaf*/, const Grid& /*grid*/,
                 const Encoding& /*encoding*/) const override {
    throw not_written();
  }
  std::uint64_t encode(const PieceForm& /*form*/, const ChunkOf& /*chunk*/,
                       std::span<std::byte> /*stored*/,
                       std::span<std::byte> /*scratch*/) const override {
    throw not_written();
  }
  std::vector<SideFile> metadata(const TreeSpec& /*tree*/,
                                 const Placements& /*placed*/) const override {
    throw not_written();
  }
  FileLayout layout() const override { throw not_written(); }

 private:
  static Error not_written() {
    return Error(ErrorCode::unsupported, "hfshard reads files of torch.save but doesn't write them")
        .hint(
            "pass --to safetensors for a Hugging Face directory, or --to dcp for "
            "torch.distributed.checkpoint");
  }
};

}  // namespace

const Format& torch_format() {
  static const TorchFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::torch
