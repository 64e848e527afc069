#include "format/safetensors/format.h"

#include <algorithm>

#include "format/safetensors/open.h"

#include "hfshard/error.h"

namespace hfshard::format::safetensors {
namespace {

constexpr std::string_view kFileEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";

[[noreturn]] void throw_read_only() {
  throw Error(ErrorCode::unsupported, "safetensors checkpoints are read, not written");
}

class SafetensorsFormat final : public Format {
 public:
  std::string_view name() const override { return "safetensors"; }

  // There is no mark beside the files themselves, and one step only.
  std::optional<Found> recognise(const StorePath& path) const override {
    const auto entry = path.find();
    if (!entry || entry->kind == FileKind::dangling) return {};
    const Found found{path.name(), {}, {}};
    if (entry->kind != FileKind::directory)
      return path.name().ends_with(kFileEnding) ? std::optional(found) : std::nullopt;
    const bool here = std::ranges::any_of(path.list(), [](const std::string& name) {
      return name.ends_with(kFileEnding) || name.ends_with(kIndexEnding);
    });
    return here ? std::optional(found) : std::nullopt;
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override { return open_hf(path); }

  bool plain() const override { return true; }

  bool writes() const override { return false; }
  PieceForm form(const Leaf& /*leaf*/, const Grid& /*grid*/,
                 const Encoding& /*encoding*/) const override {
    throw_read_only();
  }
  std::uint64_t encode(const PieceForm& /*form*/, std::span<std::byte> /*stored*/,
                       std::span<std::byte> /*scratch*/) const override {
    throw_read_only();
  }
  std::vector<SideFile> metadata(const TreeSpec& /*tree*/,
                                 const Placements& /*placed*/) const override {
    throw_read_only();
  }
  FileLayout layout() const override { throw_read_only(); }
};

}  // namespace

const Format& safetensors_format() {
  static const SafetensorsFormat kFormat;
  return kFormat;
}

}  // namespace hfshard::format::safetensors
