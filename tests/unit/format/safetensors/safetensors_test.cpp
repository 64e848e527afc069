#include "format/safetensors/safetensors.h"

#include <fstream>
#include <functional>
#include <string_view>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/json_rejections.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format::safetensors {
namespace {

SafetensorsHeader parse_bytes_of_file(const std::string& bytes) {
  const TempDir dir;
  write_text(dir / "m.safetensors", bytes);
  return parse_safetensors(dir / "m.safetensors");
}

Error refusal(const std::string& bytes) {
  const TempDir dir;
  write_text(dir / "m.safetensors", bytes);
  Error error = catch_error([&] { parse_safetensors(dir / "m.safetensors"); });
  EXPECT_EQ(error.file(), dir / "m.safetensors");
  return error;
}

Error refusal(const SafetensorsBuilder& builder) { return refusal(builder.build()); }

// Returns the error for a file with this header and one byte of data.
Error header_refusal(const std::string& header) {
  return refusal(SafetensorsBuilder().tensor("x", DType::u8, {1}).raw_header(header));
}

SafetensorsBuilder one_tensor() { return SafetensorsBuilder().tensor("w", DType::f32, {4}); }

TEST(SafetensorsHeader, ReadsNamesShapesAndAbsoluteRanges) {
  SafetensorsBuilder builder;
  builder.metadata("format", "pt")
      .tensor("b", DType::bf16, {2, 3})
      .tensor("a", DType::f32, {})
      .tensor("empty", DType::i64, {4, 0});
  const std::string bytes = builder.build();
  const SafetensorsHeader header = parse_bytes_of_file(bytes);
  EXPECT_EQ(header.data_begin_bytes, 8 + builder.header().size());
  EXPECT_EQ(header.sha256, sha256_hex(bytes.substr(0, header.data_begin_bytes)));
  EXPECT_EQ(header.identity.size_bytes, bytes.size());
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(header.tensors[0].range(),
            (ByteRange{header.data_begin_bytes, header.data_begin_bytes + 12}));
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_EQ(header.tensors[1].size_bytes, 4U);
  EXPECT_EQ(header.tensors[2].size_bytes, 0U);
  EXPECT_EQ(header.tensors[2].begin_bytes, bytes.size());
}

// save_model of safetensors adds an entry from each shared name to the stored one.
TEST(SafetensorsHeader, AStoredTensorIsNotASharedName) {
  const SafetensorsHeader header = parse_bytes_of_file(SafetensorsBuilder()
                                                           .metadata("a", "b")
                                                           .metadata("c", "b")
                                                           .tensor("a", DType::u8, {1})
                                                           .tensor("b", DType::u8, {1})
                                                           .build());
  EXPECT_EQ(header.metadata, std::vector<std::string>{"a"});
  ASSERT_EQ(header.shared.size(), 1U);
  EXPECT_EQ(header.shared[0].name, "c");
}

// An empty tensor can be anywhere, even before one that begins at the same byte, with any name.
TEST(SafetensorsHeader, EmptyTensorsMayLieBetweenOthers) {
  for (const char* name : {"0", "m", "z"}) {
    const SafetensorsHeader header = parse_bytes_of_file(SafetensorsBuilder()
                                                             .tensor("a", DType::u8, {4})
                                                             .tensor(name, DType::f32, {0, 7})
                                                             .tensor("b", DType::u8, {4})
                                                             .build());
    EXPECT_EQ(header.tensors.size(), 3U);
  }
}

TEST(SafetensorsHeader, ReadsEveryDType) {
  SafetensorsBuilder builder;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    builder.tensor(std::string(to_string(dtype)), dtype, {4, 2});
  }
  const SafetensorsHeader header = parse_bytes_of_file(builder.build());
  ASSERT_EQ(header.tensors.size(), kDTypeCount);
  for (const TensorInfo& tensor : header.tensors) {
    EXPECT_EQ(tensor.name, to_string(tensor.dtype));
    EXPECT_EQ(tensor.size_bytes, size_bits(tensor.dtype)) << tensor.name;  // 8 elements
  }
}

TEST(SafetensorsHeader, AcceptsNoTensorsPaddingSkewAndEscapedNames) {
  EXPECT_TRUE(parse_bytes_of_file(SafetensorsBuilder().build()).tensors.empty());
  for (std::uint64_t skew = 0; skew < 8; ++skew) {
    const SafetensorsHeader header = parse_bytes_of_file(one_tensor().align(8, skew).build());
    EXPECT_EQ(header.data_begin_bytes % 8, skew);
  }
  const std::string name = "\"\\\n\u00e9\U0001F600";
  const SafetensorsHeader header =
      parse_bytes_of_file(SafetensorsBuilder().tensor(name, DType::u8, {1}).build());
  EXPECT_EQ(header.tensors.at(0).name, name);
}

// The reader can look past the header. The bytes there, and their number, must not matter.
TEST(SafetensorsHeader, ReadsHeadersFollowedByAnyAmountOfData) {
  for (std::uint64_t size : {0U, 1U, 31U, 32U, 63U, 64U, 65U, 5000U}) {
    const std::string data(size, '"');
    const auto header =
        parse_bytes_of_file(SafetensorsBuilder().tensor("w", DType::u8, Shape{size}, data).build());
    EXPECT_EQ(header.tensors.at(0).size_bytes, size);
  }
}

// Appends to the file before each read of it.
int append_at_read(const char* call, const char* path) {
  if (std::string_view(call) == "pread" && std::string_view(path).ends_with("m.safetensors"))
    std::ofstream(path, std::ios::app) << 'x';
  return 0;
}

// Otherwise the header could have parts of two files.
TEST(SafetensorsHeader, RefusesAFileThatChangesMeanwhile) {
  const TempDir dir;
  write_text(dir / "m.safetensors", one_tensor().build());
  sys::set_fault_hook(&append_at_read);
  const Error error = catch_error([&] { parse_safetensors(dir / "m.safetensors"); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
  EXPECT_EQ(error.file(), dir / "m.safetensors");
}

TEST(SafetensorsHeader, RefusesWhatTheSharedJsonSuiteLists) {
  // The undamaged form of the cases below.
  EXPECT_EQ(parse_bytes_of_file(
                SafetensorsBuilder()
                    .tensor("a", DType::u8, {1})
                    .raw_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})")
                    .build())
                .tensors.size(),
            1U);
  for (const auto& [what, text] : json_rejections()) {
    const Error error = header_refusal(text);
    EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::bad_input)
        << what << ": " << error.format();
  }
  const auto sized = [](const std::string& size) {
    return R"({"a":{"dtype":"U8","shape":[)" + size + R"(],"data_offsets":[0,1]}})";
  };
  EXPECT_EQ(header_refusal(sized("NaN")).code(), ErrorCode::corrupt);
  EXPECT_EQ(header_refusal(sized("18446744073709551616")).code(), ErrorCode::bad_input);
}

TEST(SafetensorsHeader, ALoneSurrogateInAStringIsCorrupt) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  for (const char* name : {R"(\udc00)", R"(x\udfff)", R"(\ud800)", R"(\ud800x)"}) {
    EXPECT_EQ(header_refusal("{\"" + std::string(name) + "\":" + entry + "}").code(),
              ErrorCode::corrupt)
        << name;
  }
}

TEST(SafetensorsHeader, ALoneSurrogateInAValueIsCorrupt) {
  for (const char* text : {R"(\udc00)", R"(\ud800)"}) {
    const std::string value = "\"" + std::string(text) + "\"";
    const std::string in_metadata = R"({"__metadata__":{"format":)" + value + "}}";
    const std::string as_dtype =
        R"({"a":{"dtype":)" + value + R"(,"shape":[1],"data_offsets":[0,1]}})";
    for (const std::string& header : {in_metadata, as_dtype})
      EXPECT_EQ(header_refusal(header).code(), ErrorCode::corrupt) << header;
  }
}

TEST(SafetensorsHeader, AnEmptyOrTinyFileIsCorrupt) {
  EXPECT_EQ(refusal("").code(), ErrorCode::corrupt);
  EXPECT_EQ(refusal("").range(), (ByteRange{0, 8}));
  const Error tiny = refusal("abc");
  EXPECT_EQ(tiny.code(), ErrorCode::corrupt);
  EXPECT_EQ(tiny.range(), (ByteRange{0, 8}));
  EXPECT_EQ(tiny.total_bytes(), 3U);
  const Error empty_header = refusal(std::string(8, '\0'));
  EXPECT_EQ(empty_header.code(), ErrorCode::corrupt);
  EXPECT_NE(empty_header.sentence(), tiny.sentence()) << "its length is there";
}

TEST(SafetensorsHeader, AGitLfsPointerIsNamedWithItsRemedy) {
  const Error error =
      refusal("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_NE(error.hint_text().find("git lfs pull"), std::string::npos);
}

TEST(SafetensorsHeader, AHeaderLongerThanTheFileOrTheLimitIsCorrupt) {
  const std::string good = one_tensor().build();
  const Error longer = refusal(one_tensor().raw_length(good.size()));
  EXPECT_EQ(longer.code(), ErrorCode::corrupt);
  EXPECT_EQ(longer.range(), (ByteRange{8, 8 + good.size()}));
  EXPECT_EQ(longer.total_bytes(), good.size());
  const Error greatest = refusal(one_tensor().raw_length(kMaxHeaderBytes));
  EXPECT_EQ(greatest.range(), (ByteRange{8, 8 + kMaxHeaderBytes}));  // only the file is too short
  for (const std::uint64_t length : {kMaxHeaderBytes + 1, UINT64_MAX}) {
    const Error error = refusal(one_tensor().raw_length(length));
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.range(), (ByteRange{0, 8}));
  }
}

TEST(SafetensorsHeader, AHeaderThatDoesNotBeginWithABraceIsCorrupt) {
  for (const char* text : {" {}", "[]", "null", "<!DOCTYPE html>"}) {
    const Error error = header_refusal(text);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << text;
    EXPECT_EQ(error.range(), (ByteRange{8, 9})) << text;
  }
}

TEST(SafetensorsHeader, DuplicateNamesAreRefused) {
  SafetensorsBuilder builder;
  builder.tensor("w", DType::u8, {1}).tensor("w", DType::u8, {1});
  const Error error = refusal(builder);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "w");
}

TEST(SafetensorsHeader, DuplicateOrUnknownOrMissingMembersAreRefused) {
  const Error twice = refusal(one_tensor().extra_member("w", R"("dtype":"F32")"));
  EXPECT_EQ(twice.code(), ErrorCode::bad_input);
  EXPECT_EQ(twice.tensor(), "w");
  const Error unknown = refusal(one_tensor().extra_member("w", R"("strides":[1])"));
  EXPECT_EQ(unknown.code(), ErrorCode::bad_input);
  EXPECT_NE(unknown.sentence().find("strides"), std::string::npos);
  for (const char* entry :
       {R"({"shape":[1],"data_offsets":[0,1]})", R"({"dtype":"U8","data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[1]})", "{}", "[]", "1", "null"}) {
    const Error error = header_refusal(std::string(R"({"x":)") + entry + "}");
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << entry;
    EXPECT_EQ(error.tensor(), "x") << entry;
  }
}

TEST(SafetensorsHeader, MetadataMustBeStringsAndUnique) {
  for (const char* metadata : {R"({"a":1})", R"({"a":null})", R"({"a":{}})", "[]", "null", "\"x\"",
                               R"({"a":"1","a":"2"})"}) {
    const Error error = header_refusal(std::string(R"({"__metadata__":)") + metadata +
                                       R"(,"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << metadata;
  }
  EXPECT_EQ(header_refusal(R"({"__metadata__":{},"__metadata__":{}})").code(),
            ErrorCode::bad_input);
}

TEST(SafetensorsHeader, NegativeAndFractionalSizesAreRefused) {
  for (const char* shape :
       {"[-4]", "[4.0]", "[4.5]", "[4e0]", "[\"4\"]", "[null]", "[[4]]", "4", "{}", "null"}) {
    const Error error = refusal(one_tensor().lie_about("w", "shape", shape));
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << shape;
    EXPECT_EQ(error.tensor(), "w") << shape;
  }
  for (const char* offsets :
       {"[-1,16]", "[0,16.0]", "[0]", "[0,16,16]", "[]", "16", "[0,\"16\"]"}) {
    const Error error = refusal(one_tensor().lie_about("w", "data_offsets", offsets));
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << offsets;
    EXPECT_EQ(error.tensor(), "w") << offsets;
  }
}

TEST(SafetensorsHeader, AShapeThatOverflowsIsRefused) {
  const Error error = refusal(one_tensor().lie_about("w", "shape", "[4294967296,4294967296,2]"));
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "w");
  const Error bits = refusal(one_tensor().lie_about("w", "shape", "[18446744073709551615]"));
  EXPECT_EQ(bits.code(), ErrorCode::bad_input);
}

TEST(SafetensorsHeader, NineDimsAreUnsupported) {
  const Error error = refusal(one_tensor().lie_about("w", "shape", "[1,1,1,1,1,1,1,1,4]"));
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "w");
}

TEST(SafetensorsHeader, AnUnknownDTypeIsUnsupportedAndNamed) {
  const Error error = refusal(one_tensor().lie_about("w", "dtype", "\"F128\""));
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_NE(error.sentence().find("F128"), std::string::npos);
  EXPECT_EQ(refusal(one_tensor().lie_about("w", "dtype", "7")).code(), ErrorCode::bad_input);
}

TEST(SafetensorsHeader, ASizeThatDoesNotFollowFromTheShapeIsCorrupt) {
  const SafetensorsBuilder builder = one_tensor().lie_about("w", "shape", "[5]");
  const Error error = refusal(builder);
  const std::uint64_t begin = 8 + builder.header().size();
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.range(), (ByteRange{begin, begin + 16}));
}

TEST(SafetensorsHeader, SubByteElementsMustFillTheLastByte) {
  const Error error =
      refusal(SafetensorsBuilder().tensor("w", DType::f4, {4}).lie_about("w", "shape", "[3]"));
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "w");
}

TEST(SafetensorsHeader, RangePastEndIsCorruptAndNamesTheTensor) {
  const SafetensorsBuilder builder = one_tensor().lie_about_range("w", {0, 4096});
  const std::uint64_t begin = 8 + builder.header().size();
  const Error error = refusal(builder);
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.range(), (ByteRange{begin, begin + 4096}));
  EXPECT_EQ(error.total_bytes(), begin + 16);
}

TEST(SafetensorsHeader, ReversedAndOverflowingRangesAreCorrupt) {
  for (const ByteRange range :
       {ByteRange{16, 0}, ByteRange{UINT64_MAX - 1, UINT64_MAX}, ByteRange{0, UINT64_MAX}}) {
    const Error error = refusal(one_tensor().lie_about_range("w", range));
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.tensor(), "w");
  }
}

TEST(SafetensorsHeader, HolesAndOverlapsAreCorrupt) {
  SafetensorsBuilder two;
  two.tensor("a", DType::u8, {8}).tensor("b", DType::u8, {8});
  const Error overlap = refusal(SafetensorsBuilder(two).lie_about_range("b", {7, 15}));
  EXPECT_EQ(overlap.code(), ErrorCode::corrupt);
  EXPECT_EQ(overlap.tensor(), "b");
  const Error same = refusal(SafetensorsBuilder(two).lie_about_range("b", {0, 8}));
  EXPECT_EQ(same.code(), ErrorCode::corrupt);
  const SafetensorsBuilder holed = SafetensorsBuilder(two).lie_about_range("a", {0, 7});
  const Error hole = refusal(holed);
  const std::uint64_t begin = 8 + holed.header().size();
  EXPECT_EQ(hole.code(), ErrorCode::corrupt);
  EXPECT_EQ(hole.tensor(), "b");
  EXPECT_EQ(hole.range(), (ByteRange{begin + 8, begin + 16}));
  const Error first = refusal(one_tensor().lie_about_range("w", {1, 16}));
  EXPECT_EQ(first.code(), ErrorCode::corrupt);
}

TEST(SafetensorsHeader, AFileLongerOrShorterThanItsHeaderIsCorrupt) {
  const std::string good = one_tensor().build();
  const Error longer = refusal(good + "xyz");
  EXPECT_EQ(longer.code(), ErrorCode::corrupt);
  EXPECT_EQ(longer.range(), (ByteRange{good.size(), good.size() + 3}));
  EXPECT_EQ(longer.total_bytes(), good.size() + 3);
  const Error shorter = refusal(good.substr(0, good.size() - 1));
  EXPECT_EQ(shorter.code(), ErrorCode::corrupt);
  EXPECT_EQ(shorter.tensor(), "w");
  EXPECT_EQ(shorter.range(), (ByteRange{good.size() - 16, good.size()}));
  EXPECT_EQ(shorter.total_bytes(), good.size() - 1);
  EXPECT_NE(shorter.hint_text().find("partial"), std::string::npos);
}

// Every prefix and every single flipped header byte: an error or a consistent header, never a
// crash.
TEST(SafetensorsHeader, AnyDamageToTheHeaderIsAnErrorOrStaysConsistent) {
  const std::string good = SafetensorsBuilder()
                               .metadata("format", "pt")
                               .tensor("w", DType::f32, {2, 2})
                               .tensor("v", DType::bf16, {3})
                               .build();
  const TempDir dir;
  const auto attempt = [&](const std::string& bytes) {
    write_text(dir / "m.safetensors", bytes);
    try {
      for (const TensorInfo& t : parse_safetensors(dir / "m.safetensors").tensors) {
        EXPECT_EQ(t.size_bytes, packed_bytes(t.dtype, t.shape.numel()));
        EXPECT_LE(t.begin_bytes + t.size_bytes, bytes.size());
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.format();
    }
  };
  for (std::size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {1, 2, 32, 128}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      attempt(bytes);
    }
  }
}

TEST(SafetensorsHeader, AWrongMemberIsNamedWithWhatItShouldBe) {
  const auto said = [](const char* member, const char* value) {
    const Error error = refusal(one_tensor().lie_about("w", member, value));
    EXPECT_EQ(error.tensor(), "w");
    return error.sentence();
  };
  EXPECT_EQ(said("shape", "4"), "the header needs an array of sizes here");
  EXPECT_EQ(said("shape", "[\"4\"]"), "the header needs a size of zero or more here");
  EXPECT_EQ(said("data_offsets", "16"), "the header needs an array of two offsets here");
  EXPECT_EQ(said("data_offsets", "[-1,16]"), "the header needs an offset of zero or more here");
  EXPECT_EQ(said("data_offsets", "[0,16,16]"), "data_offsets has more than two numbers");
  EXPECT_EQ(said("data_offsets", "[0]"), "data_offsets has fewer than two numbers");
  EXPECT_EQ(said("data_offsets", "[16,0]"), "data_offsets [16, 0] end before they begin");
  EXPECT_EQ(said("data_offsets", "[1,18446744073709551615]"),
            "data_offsets [1, 18446744073709551615] don't fit in 64 bits");
  EXPECT_EQ(said("dtype", "7"), "the header needs the name of a dtype here");
  EXPECT_EQ(said("dtype", "\"F128\""), "the dtype \"F128\" is unknown");
  EXPECT_EQ(said("shape", "[5]"), "5 of f32 needs 20 bytes, and the header gives it 16");
  EXPECT_EQ(refusal(one_tensor().extra_member("w", R"("dtype":"F32")")).sentence(),
            "the member \"dtype\" appears twice");
  EXPECT_EQ(refusal(one_tensor().extra_member("w", R"("shape":[4])")).sentence(),
            "the member \"shape\" appears twice");
  EXPECT_EQ(refusal(one_tensor().extra_member("w", R"("strides":[1])")).sentence(),
            "the member \"strides\" is unknown");
  for (const auto& [entry, lacking] : std::vector<std::pair<const char*, const char*>>{
           {R"({"shape":[1],"data_offsets":[0,1]})", "the member \"dtype\" is missing"},
           {R"({"dtype":"U8","data_offsets":[0,1]})", "the member \"shape\" is missing"},
           {R"({"dtype":"U8","shape":[1]})", "the member \"data_offsets\" is missing"},
           {"[]", "the header needs the description of a tensor here"}})
    EXPECT_EQ(header_refusal(std::string(R"({"x":)") + entry + "}").sentence(), lacking);
}

TEST(SafetensorsHeader, WrongMetadataAreSaidWithoutATensor) {
  const auto said = [](const std::string& metadata) {
    const Error error = header_refusal(R"({"__metadata__":)" + metadata + "}");
    EXPECT_EQ(error.tensor(), "");
    return error.sentence();
  };
  EXPECT_EQ(said("[]"), "the header needs an object of strings as __metadata__ here");
  EXPECT_EQ(said(R"({"a":1})"), "the header needs a string in __metadata__ here");
  EXPECT_EQ(said(R"({"a":"1","a":"2"})"), "the metadata key \"a\" appears twice");
  EXPECT_EQ(said(R"({},"__metadata__":{})"), "the key \"__metadata__\" appears twice");
}

TEST(SafetensorsHeader, NotesAndSharedNamesComeSorted) {
  const SafetensorsHeader header = parse_bytes_of_file(SafetensorsBuilder()
                                                           .metadata("z", "a note")
                                                           .metadata("y", "b")
                                                           .metadata("n", "another")
                                                           .metadata("c", "b")
                                                           .tensor("b", DType::u8, {1})
                                                           .build());
  EXPECT_EQ(header.metadata, (std::vector<std::string>{"n", "z"}));
  ASSERT_EQ(header.shared.size(), 2U);
  EXPECT_EQ(header.shared[0].name, "c");
  EXPECT_EQ(header.shared[1].name, "y");
  EXPECT_EQ(header.tensors.size(), 1U);
}

TEST(SafetensorsHeader, APlaceThatDoesNotFitIsSaidWithItsEnds) {
  SafetensorsBuilder two;
  two.tensor("a", DType::u8, {8}).tensor("b", DType::u8, {8});
  const std::string partial =
      "compare the file's size with the one on the Hub; the download may be partial";
  const auto at = [](const SafetensorsBuilder& builder, std::uint64_t offset) {
    return std::to_string(8 + builder.header().size() + offset);
  };
  const SafetensorsBuilder over = SafetensorsBuilder(two).lie_about_range("b", {7, 15});
  EXPECT_EQ(refusal(over).sentence(),
            "tensor data overlap the tensor before, which ends at " + at(over, 8));
  const SafetensorsBuilder holed = SafetensorsBuilder(two).lie_about_range("a", {0, 7});
  EXPECT_EQ(refusal(holed).sentence(), "bytes [" + at(holed, 7) + ", " + at(holed, 8) +
                                           ") before the tensor don't belong to a tensor");
  EXPECT_EQ(refusal(two.build() + "xyz").sentence(),
            "the file has " + at(two, 19) + " bytes but its header describes " + at(two, 16));
  EXPECT_EQ(refusal(two.build() + "xyz").hint_text(), partial);
  EXPECT_EQ(refusal("abc").sentence(), "the file is too short for a header");
  EXPECT_EQ(refusal("abc").hint_text(), partial);
  EXPECT_EQ(refusal("").hint_text(), partial);
  const Error longer = refusal(one_tensor().raw_length(5000));
  EXPECT_EQ(longer.sentence(), "the header passes the end of the file");
  EXPECT_EQ(longer.hint_text(), partial);
  const Error array = header_refusal("[]");
  EXPECT_EQ(array.sentence(), "the header doesn't begin with '{'");
  EXPECT_EQ(array.hint_text(), "this isn't a safetensors file, or its beginning is damaged");
}

}  // namespace
}  // namespace hfshard::format::safetensors
