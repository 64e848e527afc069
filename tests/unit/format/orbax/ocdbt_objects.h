#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/ocdbt/node.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/examples.h"

namespace hfshard::format::orbax::ocdbt {

inline constexpr std::uint64_t kTime = 1700000000000000000;

inline Manifest example_manifest(const std::string& file) {
  Manifest out;
  for (std::size_t i = 0; i < out.uuid.size(); ++i) out.uuid[i] = static_cast<std::byte>(i);
  out.config.zstd = false;
  out.files = {{file, 0}};
  out.versions.resize(1);
  out.versions[0].commit_time_ns = kTime;
  return out;
}

// Writes a database whose root is this node. Its nodes below, if any, are for the caller.
inline void write_root(const TempDir& dir, const std::string& node, std::uint8_t height = 0,
                       std::optional<std::uint64_t> stated_bytes = {}) {
  Manifest manifest = example_manifest("d/root");
  manifest.versions[0].root_height = height;
  manifest.versions[0].length_bytes = stated_bytes.value_or(node.size());
  write_text(dir / "manifest.ocdbt", encode_manifest(manifest));
  write_text(dir / "d/root", node);
}

inline Manifest manifest_a() {
  Manifest out = example_manifest(kFileA);
  out.versions[0].offset_bytes = 8;
  out.versions[0].length_bytes = 78;
  out.versions[0].statistics = {2, 78, 8};
  return out;
}

inline Node leaf_a() {
  Node out;
  out.files = {{kFileA, 0}};
  out.keys = {{0, 9}, {2, 1}};
  out.suffixes = "w/.zarray0";
  out.values = {{true, 0, 0, 2}, {false, 0, 0, 8}};
  out.inline_bytes = "{}";
  return out;
}

inline Node leaf_c() {
  Node out;
  out.files = {{kFileC0, 16}, {kFileC1, 16}};
  out.keys = {{0, 7}, {4, 3}, {2, 9}};
  out.suffixes = "w/c/0/01/0zarr.json";
  out.values = {{false, 0, 0, 5}, {false, 1, 0, 5}, {true, 0, 0, 2}};
  out.inline_bytes = "{}";
  return out;
}

inline Node decode(const std::string& bytes) {
  return decode_node(as_bytes(bytes), {"d/node", 100, 100 + bytes.size()});
}

inline Manifest decode_m(const std::string& bytes) {
  return decode_manifest(as_bytes(bytes), {"manifest.ocdbt", 0, bytes.size()});
}

// Corrects length and checksum, so that damage to the body reaches the parser.
inline std::string reseal(std::string bytes) {
  std::array<std::byte, 8> length{};
  store_le(length.data(), std::uint64_t{bytes.size()});
  bytes.replace(4, 8, as_text(length));
  std::array<std::byte, 4> crc{};
  store_le(crc.data(), crc32c(as_bytes(bytes).first(bytes.size() - 4)));
  bytes.replace(bytes.size() - 4, 4, as_text(crc));
  return bytes;
}

// Manifest A, which says that numbered ones have the state.
inline std::string numbered_manifest() {
  return reseal(std::string(kManifestA)
                    .replace(30, std::string::npos, kManifestA.substr(30, 9) + "crc!")
                    .replace(30, 1, "\1"));
}

}  // namespace hfshard::format::orbax::ocdbt
