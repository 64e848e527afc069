// An array or a chunk that can't be read says why, with the names and numbers that are wrong.

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/codec.h"
#include "support/catch_error.h"
#include "support/deflate_streams.h"
#include "support/zstd_frames.h"
#include "unit/format/orbax/read_chunk.h"

namespace hfshard::format::orbax::zarr {
namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;  // the change, the sentence

const std::string kArrayText =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[4,6]},"name":"regular"},)"
    R"("chunk_key_encoding":{"name":"default"},)"
    R"("codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}],)"
    R"("data_type":"bfloat16","fill_value":0.0,"node_type":"array","shape":[8,6],"zarr_format":3})";

// Returns the sentence of the error for `text` with `to` in place of `from`.
std::string said_of_array(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const bool is_v2 = text.find("\"dtype\"") != std::string::npos;
  const Error error = catch_error([&] {
    if (is_v2) parse_array_v2(text, "f", "w");
    if (!is_v2) parse_array(text, "f", "w");
  });
  EXPECT_EQ(error.file(), "f");
  EXPECT_EQ(error.tensor(), "w");
  return error.sentence();
}

TEST(ZarrErrors, ACodecThatIsNotSupportedIsNamedWithTheOneBeforeIt) {
  const std::string crc = R"({"name":"crc32c"}])";
  const std::string zstd = R"({"name":"zstd","configuration":{"level":1,"checksum":false}})";
  for (const auto& [to, wanted] :
       Changes{{R"({"name":"blosc"}])", "the codec \"blosc\" after \"bytes\" isn't supported"},
               {R"({"name":"crc32c"},{"name":"crc32c"}])",
                "the codec \"crc32c\" after \"crc32c\" isn't supported"},
               {zstd + R"(,{"name":"gzip"}])", "the codec \"gzip\" after \"zstd\" isn't supported"},
               {R"({"name":"crc32c"},{"name":"gzip"},)" + zstd + "]",
                "the codec \"zstd\" after \"gzip\" isn't supported"},
               {R"({"name":"crc32c","configuration":{"a":1}}])",
                "the configuration of \"crc32c\" has the unknown member \"a\""},
               {R"({"name":"crc32c","a":1}])", "zarr.json has the unknown member \"a\""},
               {R"({"name":"zstd","configuration":{"level":1,"dictionary":"x"}}])",
                "the configuration of \"zstd\" has the unknown member \"dictionary\""},
               {R"({"name":"gzip","configuration":{"level":1,"checksum":false}}])",
                "the configuration of \"gzip\" has the unknown member \"checksum\""}})
    EXPECT_EQ(said_of_array(kArrayText, crc, to), wanted);
  EXPECT_EQ(said_of_array(kArrayText, R"("bytes")", R"("packbits")"),
            "the codec \"packbits\" isn't supported");
  EXPECT_EQ(said_of_array(kArrayText, R"("little")", R"("big")"),
            "byte order \"big\" isn't supported");
  EXPECT_EQ(said_of_array(kArrayText, R"("configuration":{"endian":"little"},)", ""),
            "the codec \"bytes\" lacks \"endian\"");
  EXPECT_EQ(said_of_array(kArrayText, R"("codecs":[)",
                          R"("codecs":[{"name":"transpose","configuration":{"order":[0,0]}},)"),
            "the order of \"transpose\" isn't a permutation of the axes");
  EXPECT_EQ(said_of_array(kArrayText, R"("codecs":[)",
                          R"("codecs":[{"name":"transpose","configuration":{"order":[0]}},)"),
            "the order of \"transpose\" isn't a permutation of the axes");
}

TEST(ZarrErrors, AnArrayOfAnotherKindIsNamed) {
  const auto said = [](const std::string& from, const std::string& to) {
    return said_of_array(kArrayText, from, to);
  };
  EXPECT_EQ(said(R"("codecs")", R"("x":1,"codecs")"), "zarr.json has the unknown member \"x\"");
  EXPECT_EQ(said(R"("bfloat16")", R"("int4")"), "the data type \"int4\" isn't supported");
  EXPECT_EQ(said(R"("bfloat16")", R"({"name":"x"})"), "extension data types aren't supported");
  EXPECT_EQ(said(R"("regular")", R"("rectilinear")"),
            "the chunk grid \"rectilinear\" isn't supported");
  EXPECT_EQ(said(R"({"name":"default"})", R"({"name":"other"})"),
            "the chunk key encoding \"other\" isn't supported");
  EXPECT_EQ(said(R"({"name":"default"})", R"({"name":"v2","configuration":{"separator":"-"}})"),
            "the chunk key separator \"-\" is neither / nor .");
  EXPECT_EQ(said(R"("zarr_format":3)", R"("zarr_format":2)"),
            "zarr format 2 in a zarr.json; 3 is supported");
  EXPECT_EQ(said(R"("node_type":"array")", R"("node_type":"group")"),
            "a zarr node of type \"group\" instead of an array");
  EXPECT_EQ(said(R"("codecs")", R"("storage_transformers":[{}],"codecs")"),
            "storage transformers aren't supported");
  EXPECT_EQ(said("[4,6]", "[0,6]"), "the chunk shape has an extent of 0; at least 1 is needed");
  EXPECT_EQ(said("[4,6]", "[4]"), "the chunk shape 4 has another rank than the shape 8x6");
  const std::string cut = said(R"("zarr_format":3})", "");
  EXPECT_TRUE(cut.starts_with("zarr.json is malformed: ")) << cut;
}

TEST(ZarrErrors, AShardSaysWhatItsInnerChunksLack) {
  const std::string codecs =
      R"([{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])";
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string sharding =
        R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[2,3],"codecs":)" + codecs +
        R"(,"index_codecs":)" + codecs + "}}]";
    sharding.replace(sharding.find(from), from.size(), to);
    return said_of_array(kArrayText, codecs, sharding);
  };
  EXPECT_EQ(said("[2,3]", "[3,3]"), "the inner chunk 3x3 doesn't divide the chunk 4x6");
  EXPECT_EQ(said("[2,3]", "[2]"), "the inner chunk shape has another rank than the chunk shape");
  EXPECT_EQ(said("[2,3]", "[2,0]"),
            "the inner chunk shape has an extent of 0; at least 1 is needed");
  EXPECT_EQ(said(R"("chunk_shape")", R"("index_location":"middle","chunk_shape")"),
            "a shard index at \"middle\", which is neither start nor end");
  EXPECT_EQ(said(R"("chunk_shape")", R"("x":1,"chunk_shape")"),
            "the configuration of \"sharding_indexed\" has the unknown member \"x\"");
  EXPECT_EQ(said("}}]", R"(}},{"name":"crc32c"}])"),
            "codecs after \"sharding_indexed\" aren't supported");
  EXPECT_EQ(said(R"({"name":"crc32c"}]}}])", R"({"name":"zstd"}]}}])"),
            "a compressed shard index has an unknown size");
}

TEST(ZarrErrors, AnArrayOfTheOlderVersionSaysWhatIsNotSupported) {
  const std::string text =
      R"({"chunks":[4,3],"compressor":{"id":"zstd","level":1},"dimension_separator":".",)"
      R"("dtype":"<i4","fill_value":null,"filters":null,"order":"C","shape":[9,7],"zarr_format":2})";
  const auto said = [&](const std::string& from, const std::string& to) {
    return said_of_array(text, from, to);
  };
  EXPECT_EQ(said(R"("<i4")", R"([["a","<i4"]])"), "structured dtypes aren't supported");
  EXPECT_EQ(said(R"("<i4")", R"(">i4")"), "the dtype \">i4\" isn't supported: it is big-endian");
  EXPECT_EQ(said(R"("<i4")", R"("|i4")"),
            "the dtype \"|i4\" isn't supported: it lacks a byte order");
  EXPECT_EQ(said(R"("<i4")", R"("<i3")"), "the dtype \"<i3\" isn't supported");
  EXPECT_EQ(said(R"("<i4")", R"("int32")"), "the dtype \"int32\" isn't supported");
  EXPECT_EQ(said(R"("order":"C")", R"("order":"K")"), "the order \"K\" is neither C nor F");
  EXPECT_EQ(said(R"("dimension_separator":".")", R"("dimension_separator":"-")"),
            "the dimension separator \"-\" is neither / nor .");
  EXPECT_EQ(said(R"("zarr_format":2)", R"("zarr_format":3)"),
            "zarr format 3 in a .zarray; 2 is supported");
  EXPECT_EQ(said("[4,3]", "[4]"), "the chunk shape 4 has another rank than the shape 9x7");
  EXPECT_EQ(said("[4,3]", "[4,0]"), "the chunk shape has an extent of 0; at least 1 is needed");
  EXPECT_EQ(said(R"("zstd")", R"("blosc")"), "the compressor \"blosc\" isn't supported");
  EXPECT_EQ(said(R"("filters":null)", R"("filters":[{"id":"delta"}])"),
            "the filter \"delta\" isn't supported");
  const std::string cut = said(R"("zarr_format":2})", "");
  EXPECT_TRUE(cut.starts_with(".zarray is malformed: ")) << cut;
}

TEST(ZarrErrors, TheLevelOfACompressorIsTheStatedOne) {
  const auto level = [](const std::string& compressor) {
    return parse_array_v2(
               R"({"chunks":[4],"compressor":)" + compressor +
                   R"(,"dtype":"|u1","fill_value":null,"filters":null,"order":"C","shape":[4],)"
                   R"("zarr_format":2})",
               "f", "w")
        .level;
  };
  EXPECT_EQ(level(R"({"id":"zstd","level":7})"), 7);
  EXPECT_EQ(level(R"({"id":"zstd","level":-2})"), -2);
  EXPECT_EQ(level(R"({"id":"zlib"})"), 1);
}

TEST(ZarrErrors, AChunkThatIsTooLargeSaysItsShape) {
  const auto said = [](DType dtype, const Shape& chunk, const Shape& inner) {
    const Error error =
        catch_error([&] { (void)make_array(dtype, chunk, chunk, inner, Encoding{}).form(); });
    EXPECT_EQ(error.code(), ErrorCode::limit);
    return error.sentence();
  };
  EXPECT_EQ(said(DType::u8, {1ULL << 28}, {1}),
            "a chunk of 268435456 holds more than 134217728 inner chunks");
  EXPECT_EQ(make_array(DType::u8, {1ULL << 27}, {1ULL << 27}, {1}, Encoding{}).form().cells,
            1U << 27);
  EXPECT_EQ(said(DType::u8, {8, 1ULL << 60}, {1, 1ULL << 60}),
            "a chunk of 8x1152921504606846976 u8 elements is too large");
  const Error packed = catch_error([] { make_array(DType::f4, {8}, {8}, {8}, Encoding{}); });
  EXPECT_EQ(packed.sentence(),
            fmt::format("zarr can't store packed {} elements; it uses a whole byte for each",
                        to_string(DType::f4)));
}

TEST(ZarrErrors, AChunkOfAnotherLengthSaysBoth) {
  const auto said = [](const Array& array, const std::string& stored) {
    return catch_error([&] { read_chunk(array, {0}, stored); }).sentence();
  };
  const Array plain = make_array(DType::u8, {4}, {4}, {4}, {false, 0});
  EXPECT_EQ(said(plain, "abc"), "3 bytes instead of 4");
  EXPECT_EQ(said(plain, "abcde"), "5 bytes instead of 4");
  const Array checked = make_array(DType::u8, {4}, {4}, {4}, {});
  EXPECT_EQ(said(checked, "abc"), "3 bytes, too few for a checksum");
  EXPECT_EQ(said(checked, "abcdefg"), "3 bytes instead of 4") << "besides the checksum";
  EXPECT_EQ(said(checked, "abcdXXXX"),
            fmt::format("checksum mismatch: 58585858 is stored, {:08x} is computed",
                        crc32c(as_bytes(std::string_view("abcd")))));
  const Array shard = make_array(DType::u8, {4}, {4}, {2}, {});
  EXPECT_EQ(said(shard, std::string(35, 'x')), "35 bytes, too few for an index of 36");
  EXPECT_EQ(said(shard, std::string(48, 'x')), "checksum mismatch in the index of inner chunks");
}

// A chunk of two inner chunks with these places, and nothing else that is wrong.
std::string said_of_inner(const Array& array, const std::string& cells,
                          const std::vector<std::uint64_t>& places) {
  std::string index(8 * places.size(), '\0');
  for (std::size_t i = 0; i < places.size(); ++i)
    store_le(std::as_writable_bytes(std::span(index)).data() + 8 * i, places[i]);
  std::string crc(4, '\0');
  store_le(std::as_writable_bytes(std::span(crc)).data(), crc32c(as_bytes(index)));
  return catch_error([&] { read_chunk(array, {0}, cells + index + crc); }).sentence();
}

TEST(ZarrErrors, AnInnerChunkSaysItsNumberAndItsPlace) {
  const Array plain = make_array(DType::u8, {4}, {4}, {2}, {false, 0});
  const std::uint64_t none = UINT64_MAX;
  EXPECT_EQ(said_of_inner(plain, "abcd", {0, 2, none, none}), "inner chunk 1 of 2 is missing");
  EXPECT_EQ(said_of_inner(plain, "abcd", {0, 2, 2, 1}),
            "inner chunk 1 has offset 2 and length 1; it needs length 2 within 4 bytes");
  EXPECT_EQ(said_of_inner(plain, "abcd", {0, 2, 3, 2}),
            "inner chunk 1 has offset 3 and length 2; it needs length 2 within 4 bytes");
  const Array packed = make_array(DType::u8, {4}, {4}, {2}, {true, 1});
  EXPECT_EQ(said_of_inner(packed, "abcd", {3, 2, 0, 4}),
            "inner chunk 0 has offset 3 and length 2; it needs a range within 4 bytes");
}

TEST(ZarrErrors, AFrameSaysWhereItShouldEnd) {
  const std::string content = "abcdefghijklmnopqrstuvwxyz";
  const auto array = [&](const std::string& codec) {
    return parse_array(
        R"({"zarr_format":3,"node_type":"array","shape":[26],"data_type":"uint8","fill_value":0,)"
        R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[26]}},)"
        R"("chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"},{"name":")" +
            codec + R"("}]})",
        "f", "w");
  };
  for (const bool is_zstd : {true, false}) {
    const Array each = array(is_zstd ? "zstd" : "gzip");
    const std::string stored = is_zstd ? zstd_frame(content) : deflate_stream(content, true);
    const std::string noun = is_zstd ? "a zstd frame" : "a deflate stream";
    const auto said = [&](const std::string& bytes) {
      return catch_error([&] { read_chunk(each, {0}, bytes); }).sentence();
    };
    EXPECT_EQ(said(stored + "xy"), fmt::format("{} ends 2 bytes before the end of its {} bytes",
                                               noun, stored.size() + 2));
    EXPECT_EQ(said(stored.substr(0, stored.size() - 1)),
              fmt::format("{} passes the end of its {} bytes", noun, stored.size() - 1));
  }
}

}  // namespace
}  // namespace hfshard::format::orbax::zarr
