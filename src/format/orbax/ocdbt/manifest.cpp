#include "format/orbax/ocdbt/manifest.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

constexpr std::uint8_t kSingle = 0;
constexpr std::uint8_t kNumbered = 1;
constexpr std::uint8_t kMaxArityLog2 = 16;

void put_config(std::string& body, const Config& config) {
  put_varint(body, config.max_inline_value_bytes);
  put_varint(body, config.max_decoded_node_bytes);
  body += static_cast<char>(config.version_tree_arity_log2);
  put_varint(body, config.zstd ? 1 : 0);
  if (!config.zstd) return;
  std::array<std::byte, 4> level{};
  store_le(level.data(), config.zstd_level);
  body += as_text(level);
}

Config get_config(Cursor& cursor) {
  Config out;
  out.max_inline_value_bytes =
      static_cast<std::uint32_t>(cursor.varint("inline value limit", UINT32_MAX));
  out.max_decoded_node_bytes = static_cast<std::uint32_t>(cursor.varint("node limit", UINT32_MAX));
  out.version_tree_arity_log2 = cursor.u8("version tree arity");
  if (out.version_tree_arity_log2 < 1 || out.version_tree_arity_log2 > kMaxArityLog2) {
    cursor.fail(fmt::format("a version tree arity of 2^{}", out.version_tree_arity_log2));
  }
  out.zstd = cursor.varint("compression method", 1) == 1;
  if (out.zstd)
    out.zstd_level = load_le<std::int32_t>(as_bytes(cursor.text("zstd level", 4)).data());
  return out;
}

void put_versions(std::string& body, const std::vector<Version>& versions) {
  put_varint(body, versions.size());
  for (const Version& v : versions) put_varint(body, v.generation);
  for (const Version& v : versions) body += static_cast<char>(v.root_height);
  for (const Version& v : versions) put_varint(body, v.file);
  for (const Version& v : versions) put_varint(body, v.offset_bytes);
  for (const Version& v : versions) put_varint(body, v.length_bytes);
  for (const Version& v : versions) put_varint(body, v.statistics.keys);
  for (const Version& v : versions) put_varint(body, v.statistics.tree_bytes);
  for (const Version& v : versions) put_varint(body, v.statistics.indirect_value_bytes);
  for (const Version& v : versions) put_u64_le(body, v.commit_time_ns);
}

void check_versions(const Cursor& cursor, const Manifest& manifest) {
  const std::vector<Version>& versions = manifest.versions;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const Version& v = versions[i];
    if (v.generation <= (i == 0 ? 0 : versions[i - 1].generation)) {
      cursor.fail(fmt::format("generation {} is not above the one before", v.generation));
    }
    if (v.file >= manifest.files.size()) {
      cursor.fail(fmt::format("data file number {} of {}", v.file, manifest.files.size()));
    }
    if (!v.empty() && !in_range(v.offset_bytes, v.length_bytes, kMaxEndOffset)) {
      cursor.fail(
          fmt::format("root offset {} and length {} pass 2^63", v.offset_bytes, v.length_bytes));
    }
    if (v.empty() && (v.offset_bytes != UINT64_MAX || v.root_height != 0)) {
      cursor.fail("a root that is half absent");
    }
  }
}

void get_versions(Cursor& cursor, Manifest& manifest) {
  const std::uint64_t most = std::uint64_t{1} << manifest.config.version_tree_arity_log2;
  const std::uint64_t n = cursor.count("number of versions", most);
  if (n == 0) cursor.fail("a manifest without a version");
  std::vector<Version>& out = manifest.versions;
  out.resize(n);
  for (Version& v : out) v.generation = cursor.varint("generation");
  for (Version& v : out) v.root_height = cursor.u8("root height");
  for (Version& v : out) {
    v.file = static_cast<std::uint32_t>(cursor.varint("root file number", UINT32_MAX));
  }
  for (Version& v : out) v.offset_bytes = cursor.varint("root offset");
  for (Version& v : out) v.length_bytes = cursor.varint("root length");
  for (Version& v : out) v.statistics.keys = cursor.varint("number of keys");
  for (Version& v : out) v.statistics.tree_bytes = cursor.varint("number of tree bytes");
  for (Version& v : out) v.statistics.indirect_value_bytes = cursor.varint("number of value bytes");
  for (Version& v : out) v.commit_time_ns = cursor.u64_le("commit time");
  check_versions(cursor, manifest);
}

// Skips older states of the database.
void skip_version_nodes(Cursor& cursor, const Manifest& manifest) {
  const std::uint64_t n = cursor.count("number of version nodes");
  for (std::uint64_t i = 0; i < n; ++i) cursor.varint("version node generation");
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t file = cursor.varint("version node file number");
    if (file >= manifest.files.size()) cursor.fail("a version node in an unknown data file");
  }
  for (std::uint64_t i = 0; i < n; ++i) cursor.varint("version node offset");
  for (std::uint64_t i = 0; i < n; ++i) cursor.varint("version node length");
  for (std::uint64_t i = 0; i < n; ++i) cursor.varint("version node number of generations");
  for (std::uint64_t i = 0; i < n; ++i) cursor.u64_le("version node commit time");
  for (std::uint64_t i = 0; i < n; ++i) cursor.u8("version node height");
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  HFSHARD_CHECK(!manifest.versions.empty() && !manifest.is_numbered);
  std::string body;
  body += as_text(manifest.uuid);
  body += static_cast<char>(kSingle);
  put_config(body, manifest.config);
  put_data_files(body, manifest.files);
  put_versions(body, manifest.versions);
  put_varint(body, 0);  // version tree nodes
  return seal(kManifestMagic, body);
}

Manifest decode_manifest(std::span<const std::byte> bytes, const Origin& origin) {
  std::vector<std::byte> unpacked;
  Cursor cursor = unseal(kManifestMagic, bytes, origin, "manifest", unpacked);
  Manifest out;
  std::ranges::copy(as_bytes(cursor.text("uuid", out.uuid.size())), out.uuid.begin());
  const std::uint8_t kind = cursor.u8("manifest kind");
  if (kind != kSingle && kind != kNumbered)
    cursor.fail(fmt::format("the unknown manifest kind {}", kind));
  out.is_numbered = kind == kNumbered;
  out.config = get_config(cursor);
  if (out.is_numbered) {
    cursor.finish();
    return out;
  }
  out.files = get_data_files(cursor);
  get_versions(cursor, out);
  skip_version_nodes(cursor, out);
  cursor.finish();
  return out;
}

}  // namespace hfshard::format::orbax::ocdbt
