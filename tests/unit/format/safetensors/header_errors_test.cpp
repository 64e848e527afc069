// A header that can't be read says why, and where in its file.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "format/safetensors/safetensors.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard::format::safetensors {
namespace {

Error error_of_bytes(const std::string& bytes) {
  const TempDir dir;
  write_text(dir / "m.safetensors", bytes);
  Error error = catch_error([&] { parse_safetensors(dir / "m.safetensors"); });
  EXPECT_EQ(error.file(), dir / "m.safetensors");
  return error;
}

// Returns the error for a file with this header and one byte of data.
Error error_of_header(const std::string& header) {
  return error_of_bytes(
      SafetensorsBuilder().tensor("x", DType::u8, {1}).raw_header(header).build());
}

const std::string kEntry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";

TEST(SafetensorsHeaderErrors, AGrammarMistakeIsSaidWithItsPlaceInTheFile) {
  const std::string header = R"({"a":)" + kEntry + R"(,"b":{"dtype":"U8",]}})";
  const Error error = error_of_header(header);
  const std::uint64_t at = 8 + header.find(']', header.find("\"b\""));
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(),
            "the header is not valid JSON: syntax error while parsing object key - unexpected ']'; "
            "expected string literal");
  EXPECT_EQ(error.tensor(), "b");
  EXPECT_EQ(error.range(), (ByteRange{at, at + 1}));
  EXPECT_EQ(error.total_bytes(), 8 + header.size());
  ASSERT_TRUE(error.place().has_value());
  EXPECT_EQ(error.place()->line, 1U);
  EXPECT_EQ(error.place()->column, at - 8 + 1);
}

TEST(SafetensorsHeaderErrors, BytesAfterTheObjectAreNotJson) {
  for (const char* rest : {" x", "{}", ","}) {
    const Error error = error_of_header(R"({"a":)" + kEntry + "}" + rest);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << rest;
    EXPECT_TRUE(error.sentence().starts_with("the header is not valid JSON: ")) << rest;
    EXPECT_EQ(error.tensor(), "") << rest;
  }
}

TEST(SafetensorsHeaderErrors, ALoneSurrogateIsSaidWhereverItIs) {
  const std::string wrong = R"("x\udc00")";
  const std::vector<std::pair<std::string, std::string>> headers{
      {"", "{" + wrong + ":" + kEntry + "}"},
      {"", R"({"__metadata__":{)" + wrong + R"(:"v"}})"},
      {"", R"({"__metadata__":{"k":)" + wrong + "}}"},
      {"", R"({"__metadata__":{"format":)" + wrong + "}}"},
      {"a", R"({"a":{"dtype":)" + wrong + R"(,"shape":[1],"data_offsets":[0,1]}})"},
      {"a", R"({"a":{)" + wrong + R"(:1,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"}};
  for (const auto& [tensor, header] : headers) {
    const Error error = error_of_header(header);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << header;
    EXPECT_NE(error.sentence().find("surrogate U+DC00..U+DFFF must follow"), std::string::npos)
        << error.sentence();
    EXPECT_EQ(error.tensor(), tensor) << header;
  }
}

TEST(SafetensorsHeaderErrors, AnotherKindOfFileIsNamedWithItsRemedy) {
  const Error pointer =
      error_of_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  EXPECT_EQ(pointer.sentence(), "the file is a git-lfs pointer, not the data");
  EXPECT_EQ(pointer.hint_text(), "run: git lfs pull");
  const Error archive = error_of_bytes("PK\x03\x04" + std::string(60, '\x7f'));
  EXPECT_EQ(archive.code(), ErrorCode::bad_input);
  EXPECT_EQ(archive.sentence(),
            "the file is a zip archive, as torch.save writes one, not safetensors");
  EXPECT_EQ(archive.hint_text(), "if torch.save wrote it, rename it to end in .bin");
  SafetensorsBuilder long_header;
  long_header.tensor("w", DType::u8, {1}).raw_length(kMaxHeaderBytes + 1);
  const Error claim = error_of_bytes(long_header.build());
  EXPECT_EQ(claim.sentence(), "the header claims 100000001 bytes, above the limit of 100000000");
  EXPECT_EQ(claim.hint_text(), "this isn't a safetensors file, or its beginning is damaged");
}

// The bytes of such a tensor count, so the others are where the header says.
TEST(SafetensorsHeaderErrors, ATensorOfAnUnknownDTypeCanBeLeftOut) {
  const TempDir dir;
  SafetensorsBuilder builder;
  builder.tensor("a", DType::u8, {4}).tensor("odd.b", DType::f32, {4}).tensor("c", DType::u8, {2});
  builder.lie_about("odd.b", "dtype", "\"F128\"").write(dir / "m.safetensors");
  const SafetensorsHeader header = parse_safetensors(dir / "m.safetensors", false, {"odd.*"});
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "c");
  EXPECT_EQ(header.tensors[1].begin_bytes, header.data_begin_bytes + 20);
  ASSERT_EQ(header.unreadable.size(), 1U);
  EXPECT_EQ(header.unreadable[0].name, "odd.b");
  const Error error = catch_error([&] { parse_safetensors(dir / "m.safetensors", false, {"c"}); });
  EXPECT_EQ(error.sentence(), "the dtype \"F128\" is unknown");
  EXPECT_EQ(error.hint_text(), "if the model doesn't need the tensor, pass --exclude 'odd.b'");
}

}  // namespace
}  // namespace hfshard::format::safetensors
