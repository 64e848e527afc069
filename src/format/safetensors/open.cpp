#include "format/safetensors/open.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "format/hf_open.h"
#include "format/plain_checkpoint.h"
#include "format/safetensors/safetensors.h"

namespace hfshard::format::safetensors {
namespace {

// Files of checkpoints that a person may name instead of the directory.
constexpr std::array kOfCheckpoints = {"config.json", "_METADATA", "manifest.ocdbt", ".metadata"};

WeightHeader read_header(const StorePath& path, bool despite_loss,
                         const std::vector<std::string>& without) {
  SafetensorsHeader header = parse_safetensors(path, despite_loss, without);
  return {std::move(header.identity), std::move(header.sha256),     std::move(header.tensors),
          std::move(header.metadata), std::move(header.unreadable), std::move(header.shared)};
}

// Returns whether a file begins with the length of a header, and a header.
bool begins_as_safetensors(const StorePath& location) {
  std::array<std::byte, sizeof(std::uint64_t) + 1> begin{};
  const auto file = location.open();
  if (file->size_bytes() < begin.size()) return false;
  file->read_at(0, begin);
  return load_le<std::uint64_t>(begin.data()) <= file->size_bytes() - sizeof(std::uint64_t) &&
         begin.back() == std::byte{'{'};
}

Catalog open_file(const StorePath& location, const HeaderReader& read) {
  if (!location.name().ends_with(kSafetensorsFiles.ending)) {
    if (begins_as_safetensors(location)) {
      throw Error(ErrorCode::unsupported, "this is a safetensors file with another name")
          .in_file(location.text())
          .hint("rename it to end in .safetensors");
    }
    const StorePath parent = location.parent();
    const auto is_there = [&](const char* name) { return (parent / name).exists(); };
    throw Error(ErrorCode::unsupported,
                "the file is neither a *.safetensors file nor one of torch.save")
        .in_file(location.text())
        .hint(std::ranges::any_of(kOfCheckpoints, is_there)
                  ? fmt::format("pass the directory {}, or a weight file", parent.name())
                  : "pass the directory of a checkpoint, or a weight file");
  }
  return open_hf_file(location, read);
}

}  // namespace

Catalog open_hf_catalog(const StorePath& location, const Choice& choice) {
  const HeaderReader read = [&](const StorePath& path, bool despite_loss) {
    return read_header(path, despite_loss, choice.without);
  };
  Catalog catalog =
      is_one_file(location, choice)
          ? open_file(location, read)
          : open_hf_directory(location, location.list(), choice, kSafetensorsFiles, read);
  catalog.wording = hf_wording();
  return catalog;
}

std::unique_ptr<Checkpoint> open_hf(const StorePath& location, const Choice& choice) {
  return plain_checkpoint(open_hf_catalog(location, choice));
}

}  // namespace hfshard::format::safetensors
