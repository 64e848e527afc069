#include "base/zstd.h"

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/ocdbt/node.h"
#include "format/orbax/orbax.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/chunk_reader.h"
#include "format/orbax/zarr/codec.h"
#include "ops/read_piece.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/zstd_frames.h"

namespace hfshard::format::orbax {
namespace {

const std::string kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
const std::string kZstd = R"({"name":"zstd","configuration":{"level":3,"checksum":false}})";
const std::string kCrc = R"({"name":"crc32c"})";
const std::string kTranspose = R"({"name":"transpose","configuration":{"order":[1,0]}})";

std::string sharded(const std::string& inner, const std::string& codecs) {
  return R"({"name":"sharding_indexed","configuration":{"chunk_shape":)" + inner +
         R"(,"codecs":[)" + codecs + R"(],"index_codecs":[)" + kBytes + "," + kCrc + "]}}";
}

std::string array_text(const std::string& codecs) {
  return R"({"zarr_format":3,"node_type":"array","shape":[4,6],"data_type":"uint16",)"
         R"("fill_value":0,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2,6]}},)"
         R"("chunk_key_encoding":{"name":"default"},"codecs":[)" +
         codecs + "]}";
}

std::string le(std::uint64_t value, std::size_t size) {
  std::array<std::byte, 8> bytes{};
  store_le(bytes.data(), value);
  return std::string(as_text(bytes).substr(0, size));
}

std::string with_crc(const std::string& bytes) { return bytes + le(crc32c(as_bytes(bytes)), 4); }

// Returns consecutive inner chunks and their index.
std::string shard(const std::vector<std::string>& cells) {
  std::string out;
  std::string index;
  for (const std::string& cell : cells) {
    index += le(out.size(), 8) + le(cell.size(), 8);
    out += cell;
  }
  return out + with_crc(index);
}

// An item with the leaf "w", 4 x 6 of u16 in two chunks, as stored.
struct Item {
  TempDir dir;
  Item(const std::string& codecs, const std::vector<std::string>& chunks, bool is_inline = false) {
    write_text(dir / "_METADATA",
               R"-({"tree_metadata":{"('w',)":{"key_metadata":[{"key":"w","key_type":2}],)-"
               R"("value_metadata":{"value_type":"np.ndarray","skip_deserialize":false}}},)"
               R"("use_ocdbt":true,"use_zarr3":true,"store_array_data_equal_to_fill_value":true})");
    ocdbt::Node node;
    node.files = {{"d/data", 0}};
    node.keys = {{0, 7}, {4, 3}, {2, 9}};
    node.suffixes = "w/c/0/01/0zarr.json";
    std::string data(7, '?');
    for (const std::string& chunk : chunks) {
      node.values.push_back({is_inline, 0, is_inline ? 0 : data.size(), chunk.size()});
      if (is_inline) node.inline_bytes += chunk;
      data += chunk;
    }
    const std::string text = array_text(codecs);
    node.values.push_back({true, 0, 0, text.size()});
    node.inline_bytes += text;
    write_text(dir / "d/data", data);
    const std::string bytes = ocdbt::encode_node(node);
    write_text(dir / "d/node", bytes);
    ocdbt::Manifest manifest;
    manifest.files = {{"d/node", 0}};
    manifest.versions.resize(1);
    manifest.versions[0].length_bytes = bytes.size();
    write_text(dir / "manifest.ocdbt", ocdbt::encode_manifest(manifest));
  }
  std::unique_ptr<Checkpoint> open() const { return orbax_format().open(dir.path()); }
};

std::string read(const Checkpoint& opened, const Shape& chunk) {
  std::string out(24, '?');
  std::vector<std::byte> scratch(
      row_major_scratch_bytes(opened, 0));  // the sanitizers detect an overrun
  read_row_major(opened, 0, chunk, std::as_writable_bytes(std::span(out)), scratch);
  return out;
}

// Elements 0 to 11 and 12 to 23.
const std::array<std::string, 2> kChunks = [] {
  std::array<std::string, 2> out;
  for (std::uint64_t i = 0; i < 24; ++i) out[i / 12] += le(i * 257, 2);
  return out;
}();

// Returns the elements of a chunk in another order.
std::string pick(const std::string& chunk, const std::vector<std::size_t>& elements) {
  std::string out;
  for (const std::size_t i : elements) out += chunk.substr(2 * i, 2);
  return out;
}

struct Form {
  std::string codecs;
  std::vector<std::string> names;
  std::function<std::string(const std::string&, const FrameOptions&)> store;
};

std::vector<Form> forms() {
  const auto two = [](const std::string& chunk, const FrameOptions& o, bool crc) {
    std::vector<std::string> cells;
    for (const std::size_t at : {0U, 3U}) {
      const std::string cell =
          zstd_frame(pick(chunk, {at, at + 1, at + 2, at + 6, at + 7, at + 8}), o);
      cells.push_back(crc ? with_crc(cell) : cell);
    }
    return shard(cells);
  };
  return {
      {kBytes + "," + kZstd,
       {"bytes", "zstd"},
       [](const std::string& chunk, const FrameOptions& o) { return zstd_frame(chunk, o); }},
      {kBytes + "," + kZstd + "," + kCrc,
       {"bytes", "zstd", "crc32c"},
       [](const auto& chunk, const auto& o) { return with_crc(zstd_frame(chunk, o)); }},
      {kTranspose + "," + kBytes + "," + kZstd,
       {"transpose", "bytes", "zstd"},
       [](const auto& chunk, const auto& o) {
         return zstd_frame(pick(chunk, {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}), o);
       }},
      {sharded("[2,6]", kBytes + "," + kZstd),
       {"sharding_indexed", "bytes", "zstd"},
       [](const auto& chunk, const auto& o) { return shard({zstd_frame(chunk, o)}); }},
      {sharded("[2,3]", kBytes + "," + kZstd),
       {"sharding_indexed", "bytes", "zstd"},
       [two](const auto& chunk, const auto& o) { return two(chunk, o, false); }},
      {sharded("[2,3]", kBytes + "," + kZstd + "," + kCrc),
       {"sharding_indexed", "bytes", "zstd", "crc32c"},
       [two](const auto& chunk, const auto& o) { return two(chunk, o, true); }},
  };
}

TEST(OrbaxZstd, EveryChainComesBack) {
  for (const Form& form : forms()) {
    for (const bool stated : {false, true}) {
      for (const bool is_inline : {false, true}) {
        const FrameOptions options{3, 0, stated, stated};
        const Item item(form.codecs,
                        {form.store(kChunks[0], options), form.store(kChunks[1], options)},
                        is_inline);
        const auto opened = item.open();
        EXPECT_EQ(opened->catalog().codecs_of(0), form.names);
        EXPECT_EQ(read(*opened, {0, 0}), kChunks[0]);
        EXPECT_EQ(read(*opened, {1, 0}), kChunks[1]);
      }
    }
  }
}

TEST(OrbaxZstd, ScratchIsThatOfTheLongestChunkUpToABlock) {
  const Form form = forms()[0];
  const std::string shorter = zstd_frame(std::string(24, 'x'));
  const std::string longer = form.store(kChunks[1], {});
  ASSERT_LT(shorter.size(), longer.size());
  const Item item(form.codecs, {shorter, longer});
  const auto opened = item.open();
  EXPECT_EQ(opened->scratch_bytes(0, PieceSteps::whole_cells),
            ZstdStream::scratch_bytes(0) + longer.size());
  EXPECT_EQ(opened->scratch_bytes(0, PieceSteps::any),
            ZstdStream::scratch_bytes(zarr::ChunkReader::kMaxWindowBytes) + longer.size());
  const Item reversed(form.codecs, {longer, shorter});
  EXPECT_EQ(reversed.open()->scratch_bytes(0, PieceSteps::whole_cells),
            ZstdStream::scratch_bytes(0) + longer.size());
  zarr::Array array;
  array.compressor = zarr::Compressor::zstd;
  const std::uint64_t huge = std::uint64_t{1} << 40;
  EXPECT_LT(zarr::chunk_scratch_bytes(array, array.form(), huge, PieceSteps::whole_cells),
            2U << 20);
  EXPECT_LT(zarr::chunk_scratch_bytes(array, array.form(), huge, PieceSteps::any), 10U << 20);
}

// Checks the error of a chunk with the wrong contents.
void expect_damage(const Form& form, const std::string& stored, const std::string& what) {
  const std::string good = form.store(kChunks[0], {});
  const Item item(form.codecs, {good, stored});
  const auto opened = item.open();
  EXPECT_EQ(read(*opened, {0, 0}), kChunks[0]) << what;
  const Error e = catch_error([&] { read(*opened, {1, 0}); });
  EXPECT_EQ(e.code(), ErrorCode::corrupt) << what;
  EXPECT_EQ(e.tensor(), "w") << what;
  EXPECT_EQ(e.file(), item.dir / "d/data") << what;
  EXPECT_NE(e.sentence().find("c/1/0"), std::string::npos) << what;
  ASSERT_TRUE(e.range().has_value()) << what;
  const std::uint64_t begin = 7 + good.size();
  EXPECT_GE(e.range()->begin, begin) << what;
  EXPECT_LE(e.range()->end, begin + stored.size()) << what;
  if (form.names[0] != "bytes") return;
  EXPECT_EQ(e.range(), (ByteRange{begin, begin + stored.size()})) << what;
}

TEST(OrbaxZstd, FramesThatAreNotTheCellAreCorrupt) {
  for (const Form& form : forms()) {
    for (const bool stated : {false, true}) {
      const FrameOptions o{3, 0, stated, false};
      // Its length is wrong before it is split, transposed and compressed.
      if (form.names[0] != "sharding_indexed" && form.names[0] != "transpose") {
        expect_damage(form, form.store(kChunks[1] + "xx", o), "too long");
        expect_damage(form, form.store(kChunks[1].substr(2), o), "too short");
        expect_damage(form, form.store("", o), "empty");
      }
    }
  }
  const Form plain = forms()[0];
  const std::string frame = plain.store(kChunks[1], {});
  expect_damage(plain, frame.substr(0, frame.size() - 1), "truncated");
  expect_damage(plain, "x", "no frame");
  expect_damage(plain, frame + "x", "a byte behind");
  expect_damage(plain, frame + zstd_frame(""), "a frame behind");
  expect_damage(plain, kChunks[1], "not compressed");
  const Form checked = forms()[1];
  expect_damage(checked, with_crc(frame + "x"), "a byte behind, with a right checksum");
  expect_damage(checked, "abcd", "nothing but a checksum");
}

TEST(OrbaxZstd, InnerFramesThatAreNotTheCellAreCorrupt) {
  const std::string first = zstd_frame(pick(kChunks[1], {0, 1, 2, 6, 7, 8}));
  const std::string second = zstd_frame(pick(kChunks[1], {3, 4, 5, 9, 10, 11}));
  const Form plain = forms()[4];
  const Form checked = forms()[5];
  for (const std::string& bad : {std::string(), zstd_frame(kChunks[1]), zstd_frame("ab"),
                                 first + "x", first + second, first.substr(0, first.size() - 1)}) {
    expect_damage(plain, shard({first, bad}), "inner frame");
    expect_damage(checked, shard({with_crc(first), with_crc(bad)}), "inner frame with checksum");
  }
  expect_damage(checked, shard({with_crc(first), "abc"}), "an inner chunk without a checksum");
  std::string index = le(0, 8) + le(first.size(), 8) + le(first.size(), 8) + le(1000, 8);
  expect_damage(plain, first + second + with_crc(index), "an inner chunk behind the end");
  index = le(0, 8) + le(first.size(), 8) + le(UINT64_MAX, 8) + le(UINT64_MAX, 8);
  expect_damage(plain, first + second + with_crc(index), "a missing inner chunk");
}

TEST(OrbaxZstd, EveryFlippedByteUnderAChecksumIsFound) {
  for (const Form& form : forms()) {
    if (form.names.back() != "crc32c") continue;
    const std::string good = form.store(kChunks[1], {});
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 8);
      expect_damage(form, bad, std::to_string(i));
    }
  }
}

TEST(OrbaxZstd, StoredLengthsThatCannotBeAreFoundWhenOpening) {
  const Form shards = forms()[4];
  for (const auto& [form, stored] :
       std::vector<std::pair<Form, std::string>>{{forms()[0], std::string(89, 'x')},
                                                 {forms()[1], "abc"},
                                                 {shards, std::string(35, 'x')}}) {
    const Item item(form.codecs, {form.store(kChunks[0], {}), stored});
    const Error e = catch_error([&] { item.open(); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt);
    EXPECT_EQ(e.tensor(), "w");
    EXPECT_EQ(e.file(), item.dir / "manifest.ocdbt");
  }
}

TEST(OrbaxZstd, SizesBeyond64BitsAreALimit) {
  // Only frames that are longer than their content exceed 2^63.
  const auto with = [](const std::string& codecs) {
    std::string text = array_text(sharded("[192000000000000000,6]", codecs));
    return text.replace(text.find("[2,6]"), 5, "[768000000000000000,6]");
  };
  EXPECT_EQ(zarr::parse_array(with(kBytes), "f", "w").form().cells, 4U);
  const std::string text = with(kBytes + "," + kZstd);
  EXPECT_EQ(catch_error([&] { zarr::parse_array(text, "f", "w"); }).code(), ErrorCode::limit);
}

}  // namespace
}  // namespace hfshard::format::orbax
