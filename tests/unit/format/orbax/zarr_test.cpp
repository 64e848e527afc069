#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "base/json.h"
#include "base/zstd.h"
#include "format/orbax/orbax.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/codec.h"
#include "support/catch_error.h"
#include "unit/format/orbax/read_chunk.h"

namespace hfshard::format::orbax::zarr {
namespace {

// Source: the output of google/tensorstore 0.1.86 for the same arrays.
const char* const kPlain =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[9496,1024]},"name":"regular"},)"
    R"("chunk_key_encoding":{"name":"default"},)"
    R"("codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}],)"
    R"("data_type":"bfloat16","fill_value":0.0,"node_type":"array","shape":[151936,1024],)"
    R"("zarr_format":3})";
const char* const kSharded =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[8]},"name":"regular"},)"
    R"("chunk_key_encoding":{"name":"default"},)"
    R"("codecs":[{"configuration":{"chunk_shape":[4],)"
    R"("codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}],)"
    R"("index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}]},)"
    R"("name":"sharding_indexed"}],)"
    R"("data_type":"int32","fill_value":0,"node_type":"array","shape":[8],"zarr_format":3})";

const std::vector<DType> kSupported{
    DType::boolean, DType::u8,          DType::i8,          DType::f8_e5m2, DType::f8_e4m3,
    DType::f8_e8m0, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::i16,     DType::u16,
    DType::f16,     DType::bf16,        DType::i32,         DType::u32,     DType::f32,
    DType::c64,     DType::f64,         DType::i64,         DType::u64};
const std::vector<DType> kPacked{DType::f4, DType::f6_e2m3, DType::f6_e3m2};

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string random_bytes(std::size_t size) {
  std::mt19937 random(11);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

TEST(ZarrArray, TextIsWhatTensorStoreWrites) {
  const Array plain =
      make_array(DType::bf16, {151936, 1024}, {9496, 1024}, {9496, 1024}, Encoding{});
  EXPECT_EQ(write_array(plain), kPlain);
  EXPECT_EQ(parse_array(kPlain, "f", "w"), plain);
  const Array sharded = make_array(DType::i32, {8}, {8}, {4}, Encoding{});
  EXPECT_EQ(write_array(sharded), kSharded);
  EXPECT_EQ(parse_array(kSharded, "f", "w"), sharded);
}

// Source: TensorStore 0.1.86's own zarr.json for these codecs.
TEST(ZarrArray, ZstdIsWhatTensorStoreWrites) {
  const std::string zstd = R"({"configuration":{"checksum":false,"level":3},"name":"zstd"},)";
  for (const auto& [text, shape, chunk, inner] :
       {std::tuple{kPlain, Shape{151936, 1024}, Shape{9496, 1024}, Shape{9496, 1024}},
        std::tuple{kSharded, Shape{8}, Shape{8}, Shape{4}}}) {
    const bool plain = chunk == inner;
    const Array array =
        make_array(plain ? DType::bf16 : DType::i32, shape, chunk, inner, {.zstd_level = 3});
    const std::string crc = R"({"name":"crc32c"}])";
    const std::string wanted = changed(text, crc, zstd + crc);
    EXPECT_EQ(write_array(array), wanted);
    EXPECT_EQ(parse_array(wanted, "f", "w"), array);
  }
}

TEST(ZarrArray, EveryDtypeComesBack) {
  ASSERT_EQ(kSupported.size() + kPacked.size(), kDTypeCount);
  for (const DType dtype : kSupported) {
    for (const bool crc : {false, true}) {
      for (const Shape& inner : {Shape{4, 6}, Shape{2, 3}}) {
        const Array array = make_array(dtype, {9, 7}, {4, 6}, inner, Encoding{crc});
        EXPECT_EQ(parse_array(write_array(array), "f", "w"), array) << to_string(dtype);
      }
    }
    const std::string scalar = write_array(make_array(dtype, {}, {}, {}, Encoding{}));
    EXPECT_EQ(parse_array(scalar, "f", "w").shape, Shape{});
    EXPECT_EQ(scalar.find("endian") != std::string::npos, size_bits(dtype) > 8);
    const Json fill = parse_json(scalar, "f").at("fill_value");
    EXPECT_EQ(fill.is_bool(), dtype == DType::boolean);
    EXPECT_EQ(fill.is_array(), dtype == DType::c64);
  }
}

TEST(ZarrArray, PackedTypesAreUnsupportedByNameOfTheLeaf) {
  for (const DType dtype : kPacked) {
    const Error e = catch_error([&] {
      orbax_format().form({"a.b", dtype, {8}, {}, {}}, {{8}, {8}, {8}}, {});
    });
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_EQ(e.tensor(), "a.b");
    EXPECT_NE(e.sentence().find(to_string(dtype)), std::string::npos);
  }
}

TEST(ZarrArray, KeyEncodingsOfOthersAreRead) {
  const auto keys = [](const std::string& encoding) {
    return parse_array(changed(kPlain, R"({"name":"default"})", encoding), "f", "w").keys;
  };
  EXPECT_EQ(keys(R"({"name":"v2"})"), (KeyEncoding{false, '.'}));
  EXPECT_EQ(keys(R"({"name":"v2","configuration":{"separator":"/"}})"), (KeyEncoding{false, '/'}));
  EXPECT_EQ(keys(R"({"name":"default","configuration":{"separator":"."}})"),
            (KeyEncoding{true, '.'}));
  for (const bool leading_c : {false, true}) {
    for (const char separator : {'.', '/'}) {
      Array array = parse_array(kPlain, "f", "w");
      array.keys = {leading_c, separator};
      EXPECT_EQ(parse_array(write_array(array), "f", "w").keys, array.keys);
    }
  }
}

TEST(ZarrArray, HarmlessMembersArePassedOver) {
  for (const char* extra : {R"("attributes":{"a":1},)", R"("dimension_names":["x",null],)",
                            R"("storage_transformers":[],)", R"("x":{"must_understand":false},)"}) {
    EXPECT_EQ(
        parse_array(changed(kPlain, R"("codecs")", std::string(extra) + R"("codecs")"), "f", "w"),
        parse_array(kPlain, "f", "w"));
  }
  for (const char* must : {"true", "null", "0"}) {
    const std::string text = changed(
        kPlain, R"("codecs")", R"("x":{"must_understand":)" + std::string(must) + R"(},"codecs")");
    EXPECT_EQ(catch_error([&] { parse_array(text, "f", "w"); }).code(), ErrorCode::unsupported)
        << must;
  }
}

TEST(ZarrArray, WhatIsNotUnderstoodIsRefusedWithFileAndLeaf) {
  const std::string crc = R"({"name":"crc32c"}],"data)";
  const std::string zstd = R"({"name":"zstd","configuration":{"level":1,"checksum":false}})";
  struct Case {
    std::string text;
    ErrorCode code;
  };
  const auto u = ErrorCode::unsupported;
  const auto c = ErrorCode::corrupt;
  const std::vector<Case> cases{
      {changed(kPlain, crc, R"({"name":"blosc"}],"data)"), u},
      {changed(kPlain, crc, zstd + R"(,{"name":"gzip"}],"data)"), u},
      {changed(kPlain, crc, zstd + "," + zstd + R"(],"data)"), u},
      {changed(kPlain, crc, R"({"name":"zstd","configuration":{"dictionary":"x"}}],"data)"), u},
      {changed(kPlain, crc, R"({"name":"crc32c"},{"name":"crc32c"}],"data)"), u},
      {changed(kPlain, crc, R"({"name":"crc32c","configuration":{"a":1}}],"data)"), u},
      {changed(kPlain, R"("bytes")", R"("packbits")"), u},
      {changed(kPlain, R"("little")", R"("big")"), u},
      {changed(kPlain, R"("configuration":{"endian":"little"},)", ""), c},
      {changed(kPlain, R"("bfloat16")", R"("int4")"), u},
      {changed(kPlain, R"("bfloat16")", R"({"name":"x"})"), u},
      {changed(kPlain, R"("regular")", R"("rectilinear")"), u},
      {changed(kPlain, R"({"name":"default"})", R"({"name":"other"})"), u},
      {changed(kPlain, R"({"name":"default"})",
               R"({"name":"v2","configuration":{"separator":"-"}})"),
       c},
      {changed(kPlain, R"("zarr_format":3)", R"("zarr_format":2)"), u},
      {changed(kPlain, R"("node_type":"array")", R"("node_type":"group")"), c},
      {changed(kPlain, R"("codecs")", R"("x":1,"codecs")"), u},
      {changed(kPlain, R"("codecs")", R"("storage_transformers":[{}],"codecs")"), u},
      {changed(kPlain, "[9496,1024]", "[0,1024]"), c},
      {changed(kPlain, "[9496,1024]", "[9496]"), c},
      {changed(kPlain, "[151936,1024]", "[-1,1024]"), c},
      {changed(kPlain, "[151936,1024]", "[1.5,1024]"), c},
      {changed(kPlain, R"("fill_value":0.0,)", ""), c},
      {changed(kPlain, "[9496,1024]", "[1,2,3,4,5,6,7,8,9]"), u},
      {changed(kPlain, "[9496,1024]", "[9223372036854775807,1024]"), c},
      {changed(kPlain, "[9496,1024]", "[4611686018427387904,1]"), c},
      {changed(changed(kSharded, R"([8]},"name":"regular")",
                       R"([4611686018427387904]},"name":"regular")"),
               R"("chunk_shape":[4])", R"("chunk_shape":[288230376151711744])"),
       ErrorCode::limit},
      {changed(kSharded, R"("chunk_shape":[4])", R"("chunk_shape":[3])"), c},
      {changed(kSharded, R"("chunk_shape":[4])", R"("chunk_shape":[4,1])"), c},
      {changed(kSharded, R"("chunk_shape":[4],)",
               R"("chunk_shape":[4],"index_location":"middle",)"),
       c},
      {changed(kSharded, R"("name":"sharding_indexed"})",
               R"("name":"sharding_indexed"},{"name":"crc32c"})"),
       u},
      {changed(kSharded, R"({"name":"crc32c"}]},)", R"({"name":"zstd"}]},)"), c},
      {changed(kSharded, R"({"name":"crc32c"}]},)", zstd + R"(,{"name":"crc32c"}]},)"), c},
      {changed(kSharded, R"([8]},"name":"regular")", R"([1073741824]},"name":"regular")"),
       ErrorCode::limit},
      {R"({"zarr_format":3)", c},
      {"[]", c},
      {"", c},
  };
  for (const Case& each : cases) {
    const Error e = catch_error([&] { parse_array(each.text, "manifest.ocdbt", "a.w"); });
    EXPECT_EQ(e.code(), each.code) << each.text << "\n" << e.what();
    EXPECT_EQ(e.file(), "manifest.ocdbt");
    EXPECT_EQ(e.tensor(), "a.w");
  }
}

TEST(ZarrChunkKeys, AreWrittenAndParsedBack) {
  const KeyEncoding ours;
  EXPECT_EQ(chunk_key(ours, {0, 12, 3}), "c/0/12/3");
  EXPECT_EQ(chunk_key(ours, {}), "c");
  EXPECT_EQ(chunk_key({false, '.'}, {}), "0");
  EXPECT_EQ(chunk_key({false, '.'}, {4, 5}), "4.5");
  for (const KeyEncoding& keys : {ours, KeyEncoding{true, '.'}, KeyEncoding{false, '.'}}) {
    for (const Shape& chunk : {Shape{}, Shape{7}, Shape{10, 0, 123456789012}}) {
      EXPECT_EQ(parse_chunk_key(keys, chunk.rank(), chunk_key(keys, chunk)), chunk);
    }
  }
  for (const char* bad : {"", "c", "c/", "c/1", "c/1/", "c/1/2/3", "c/01/2", "c/+1/2", "c/1/2x",
                          "c.1.2", "1/2", "c/1//2", "c/99999999999999999999/0", "zarr.json"}) {
    EXPECT_FALSE(parse_chunk_key(ours, 2, bad)) << bad;
  }
}

TEST(ZarrForm, StatesWhatSurroundsAChunk) {
  const Format& target = format::orbax::orbax_format();
  const Leaf leaf{"w", DType::bf16, {10, 8}, {}, {}};
  const PieceForm plain = target.form(leaf, {{}, {4, 8}, {4, 8}}, {});
  EXPECT_EQ(plain.cell_bytes, 64U);
  EXPECT_EQ(plain.cells, 1U);
  EXPECT_EQ(plain.stored_bytes(), 68U);
  EXPECT_EQ(target.form(leaf, {{}, {4, 8}, {4, 8}}, {false}).stored_bytes(), 64U);
  const PieceForm inner = target.form(leaf, {{}, {4, 8}, {2, 4}}, {});
  EXPECT_EQ(inner.cell_bytes, 16U);
  EXPECT_EQ(inner.cells, 4U);
  EXPECT_EQ(inner.tail_bytes, 68U);
  EXPECT_EQ(inner.stored_bytes(), 4U * 20U + 68U);
  EXPECT_EQ(target.form(leaf, {{}, {4, 8}, {2, 4}}, {false}).stored_bytes(), 64U + 68U);
  const Leaf scalar{"s", DType::i64, {}, {}, {}};
  EXPECT_EQ(target.form(scalar, {}, {}).stored_bytes(), 12U);
  const Leaf none{"n", DType::f32, {0, 4}, {}, {}};
  EXPECT_EQ(target.form(none, {{}, {1, 4}, {1, 4}}, {}).cell_bytes, 16U);
}

TEST(ZarrForm, StoredLengthsOfChunksAtTheEdgeHaveARange) {
  Array array = make_array(DType::u16, {5, 30}, {4, 20}, {1, 5}, Encoding{});
  EXPECT_EQ(array.stored_bytes().least, 16U * 14U + 260U);
  EXPECT_EQ(array.stored_bytes().most, 16U * 14U + 260U);
  EXPECT_EQ(array.least_stored_bytes({0, 0}), 16U * 14U + 260U);
  EXPECT_EQ(array.least_stored_bytes({0, 1}), 8U * 14U + 260U);
  EXPECT_EQ(array.least_stored_bytes({1, 1}), 2U * 14U + 260U);
  array.compressor = Compressor::zstd;
  EXPECT_EQ(array.stored_bytes().least, 16U * 4U + 260U);
  EXPECT_EQ(array.stored_bytes().most, 16U * (73U + 4U) + 260U);
}

TEST(ZarrForm, EncodeFillsChecksumsAndIndex) {
  const PieceForm form = make_array(DType::i32, {8}, {8}, {4}, Encoding{}).form();
  std::string stored(form.stored_bytes(), '\0');
  for (std::size_t i = 0; i < 16; ++i) {
    stored[i] = static_cast<char>(i);
    stored[20 + i] = static_cast<char>(100 + i);
  }
  orbax_format().encode(form, {}, std::as_writable_bytes(std::span(stored)), {});
  const auto bytes = as_bytes(stored);
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 16), crc32c(bytes.first(16)));
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 36), crc32c(bytes.subspan(20, 16)));
  for (const auto& [at, value] : {std::pair{40, 0}, {48, 20}, {56, 20}, {64, 20}}) {
    EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + at), static_cast<std::uint64_t>(value));
  }
  EXPECT_EQ(load_le<std::uint32_t>(bytes.data() + 72), crc32c(bytes.subspan(40, 32)));
}

// Frames, their checksums and the index follow each other without gaps.
TEST(ZarrForm, EncodePacksFrames) {
  const Array array = make_array(DType::u8, {600}, {600}, {200}, {.zstd_level = 5});
  const PieceForm form = array.form();
  EXPECT_EQ(form.cell_step_bytes(), 200U + form.cell_growth_bytes + 4U);
  std::string stored(form.stored_bytes(), '\x7f');
  const std::string values = random_bytes(600);
  for (std::size_t cell = 0; cell < 3; ++cell) {
    const std::string part = cell == 1 ? std::string(200, 'b') : values.substr(200 * cell, 200);
    stored.replace(cell * form.cell_step_bytes(), 200, part);
  }
  std::vector<std::byte> scratch(seal_scratch_bytes(array));
  stored.resize(seal_chunk(form, std::as_writable_bytes(std::span(stored)), scratch));
  const auto bytes = as_bytes(stored);
  const auto index = bytes.last(3 * 16 + 4);
  std::uint64_t end = 0;
  for (std::size_t cell = 0; cell < 3; ++cell) {
    EXPECT_EQ(load_le<std::uint64_t>(index.data() + 16 * cell), end);
    const auto length = load_le<std::uint64_t>(index.data() + 16 * cell + 8);
    const auto frame = bytes.subspan(end, length - 4);
    EXPECT_EQ(load_le<std::uint32_t>(frame.data() + frame.size()), crc32c(frame));
    EXPECT_EQ(decode_zstd(frame, 200).size(), 200U);
    EXPECT_EQ(length < 100, cell == 1) << "random bytes do not shrink";
    end += length;
  }
  EXPECT_EQ(end + index.size(), bytes.size());
  EXPECT_EQ(load_le<std::uint32_t>(index.data() + 48), crc32c(index.first(48)));
  const std::string all = values.substr(0, 200) + std::string(200, 'b') + values.substr(400);
  EXPECT_EQ(read_chunk(array, {0}, stored), all);
  EXPECT_EQ(read_chunk(array, {0}, stored, 7), all);
}

// A shard whose one inner chunk is in Orbax's own form.
// Source: google/orbax checkpoint/orbax/checkpoint/experimental/v1/_src/testing/compatibility:
// index of value a/c/0.
TEST(ZarrForm, IndexAgreesWithOrbax) {
  std::string stored(41 + 20, '\0');
  PieceForm form;
  form.cell_bytes = 41;
  form.tail_bytes = 20;
  orbax_format().encode(form, {}, std::as_writable_bytes(std::span(stored)), {});
  EXPECT_EQ(stored.substr(41),
            std::string(8, '\0') + '\x29' + std::string(7, '\0') + "\x8e\x86\x77\x44");
}

TEST(ZarrForm, TooManyInnerChunksAreALimit) {
  const Leaf leaf{"w", DType::u8, {1ULL << 30}, {}, {}};
  const Error e = catch_error([&] { orbax_format().form(leaf, {{}, {1ULL << 30}, {1}}, {}); });
  EXPECT_EQ(e.code(), ErrorCode::limit);
  EXPECT_EQ(e.tensor(), "w");
}

struct Shard {
  Array array = make_array(DType::u16, {4, 6}, {4, 6}, {2, 3}, Encoding{});
  std::string stored;
  std::string out;
  Shard() : stored(random_bytes(array.form().stored_bytes())) {
    seal_chunk(array.form(), std::as_writable_bytes(std::span(stored)), {});
  }
  void open(const Shape& chunk = {0, 0}) {
    const std::string in_steps = read_chunk(array, chunk, stored, 5);
    out = read_chunk(array, chunk, stored);
    EXPECT_EQ(in_steps, out);
  }
  void seal_index() {
    std::array<std::byte, 4> crc{};
    store_le(crc.data(), crc32c(as_bytes(stored).subspan(64, 64)));
    stored.replace(128, 4, as_text(crc));
  }
  void put_index(std::size_t at, std::uint64_t value) {
    std::array<std::byte, 8> bytes{};
    store_le(bytes.data(), value);
    stored.replace(64 + at, 8, as_text(bytes));
    seal_index();
  }
};

TEST(ZarrShard, InnerChunksComeInTheirOrder) {
  Shard shard;
  shard.open();
  for (std::size_t cell = 0; cell < 4; ++cell) {
    EXPECT_EQ(shard.out.substr(cell * 12, 12), shard.stored.substr(cell * 16, 12));
  }
}

TEST(ZarrShard, InnerChunksMayLieInAnyOrder) {
  Shard shard;
  shard.open();
  const std::string expected = shard.out;
  const std::string first = shard.stored.substr(0, 16);
  shard.stored.replace(0, 16, shard.stored.substr(16, 16));
  shard.stored.replace(16, 16, first);
  shard.put_index(0, 16);
  shard.put_index(16, 0);
  shard.open();
  EXPECT_EQ(shard.out, expected);
}

TEST(ZarrShard, EveryFlippedByteIsCorruptAndHasARange) {
  for (std::size_t i = 0; i < 132; ++i) {
    Shard shard;
    shard.stored[i] = static_cast<char>(shard.stored[i] ^ 4);
    const Error e = catch_error([&] { shard.open(); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt);
    EXPECT_EQ(e.range(),
              i < 64 ? (ByteRange{i / 16 * 16, i / 16 * 16 + 16}) : (ByteRange{64, 132}));
  }
}

// A chunk whose index can be read, but none of its elements.
class UnreadableElements final : public Source {
 public:
  explicit UnreadableElements(const std::string& stored) : stored_(stored) {}
  std::uint64_t size_bytes() const override { return stored_.size_bytes(); }
  const std::string& name() const override { return stored_.name(); }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    if (offset_bytes < 64) throw Error(ErrorCode::io, "no answer").in_file("elsewhere");
    stored_.read_at(offset_bytes, out);
  }

 private:
  MemorySource stored_;
};

TEST(ZarrShard, AFailedReadIsNotAboutAnInnerChunk) {
  const Shard shard;
  const Error error = catch_error([&] {
    read_chunk(shard.array, {0, 0}, UnreadableElements(shard.stored));
  });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.file(), "elsewhere");
  EXPECT_FALSE(error.range().has_value());
}

// TensorStore doesn't write inner chunks outside of the array.
TEST(ZarrShard, InnerChunksOutsideOfTheArrayMayBeMissing) {
  Shard shard;
  shard.open();
  const std::string whole = shard.out;
  shard.put_index(32, UINT64_MAX);
  shard.put_index(40, UINT64_MAX);
  EXPECT_EQ(catch_error([&] { shard.open(); }).code(), ErrorCode::corrupt);
  shard.array.shape = {6, 12};
  EXPECT_EQ(catch_error([&] { shard.open({0, 1}); }).code(), ErrorCode::corrupt);
  shard.open({1, 1});  // rows 6 and 7 of 6
  EXPECT_EQ(shard.out.substr(0, 24), whole.substr(0, 24));
  EXPECT_EQ(shard.out.substr(24, 12), std::string(12, '\0'));
  EXPECT_EQ(shard.out.substr(36), whole.substr(36));
}

TEST(ZarrShard, IndexEntriesAreChecked) {
  for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {UINT64_MAX, UINT64_MAX}, {0, 15}, {0, 17}, {49, 16}, {UINT64_MAX - 7, 16}}) {
    Shard shard;
    shard.put_index(32, offset);
    shard.put_index(40, length);
    const Error e = catch_error([&] { shard.open(); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt);
    EXPECT_EQ(e.range(), (ByteRange{96, 112}));
  }
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
