#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/orbax/ocdbt/envelope.h"

namespace hfshard::format::orbax::ocdbt {

/// Settings that a database keeps from its creation. The defaults are Orbax's, so Orbax can write
/// to the database too. Source: google/orbax
struct Config {
  std::uint32_t max_inline_value_bytes = 1024;
  std::uint32_t max_decoded_node_bytes = 100000000;
  std::uint8_t version_tree_arity_log2 = 4;
  bool zstd = true;  ///< for TensorStore's additions; hfshard's are plain
  std::int32_t zstd_level = 0;
  friend bool operator==(const Config&, const Config&) = default;
};

/// One state of the database, with the place of its root node.
struct Version {
  std::uint64_t generation = 1;
  std::uint8_t root_height = 0;
  std::uint32_t file = 0;  ///< index into Manifest::files
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  Statistics statistics;
  std::uint64_t commit_time_ns = 0;
  bool empty() const noexcept { return length_bytes == UINT64_MAX; }
  friend bool operator==(const Version&, const Version&) = default;
};

/// `manifest.ocdbt`. The last version is the current one. A numbered manifest has no versions. It
/// announces manifests with a generation in their names, of which the highest counts.
/// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/manifest.cc, version_tree_codec.h.
struct Manifest {
  std::array<std::byte, 16> uuid{};
  bool is_numbered = false;  ///< read only
  Config config;
  std::vector<DataFile> files;
  std::vector<Version> versions;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Writes all versions inline, without version tree nodes.
std::string encode_manifest(const Manifest& manifest);
/// Skips references to version tree nodes (older states). Throws: corrupt, limit.
Manifest decode_manifest(std::span<const std::byte> bytes, const Origin& origin);

}  // namespace hfshard::format::orbax::ocdbt
