#include "format/hf_copies.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "catalog/catalog.h"
#include "format/formats.h"
#include "format/safetensors/open.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_file_builder.h"

namespace hfshard::format::safetensors {
namespace {

using Names = std::vector<std::string>;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

void write_copies(const std::string& path, const Names& tensors, const Shape& shape = {2, 2}) {
  SafetensorsBuilder builder;
  for (const std::string& name : tensors) builder.tensor(name, DType::bf16, shape);
  builder.write(path);
}

Names names_in(const Catalog& catalog) {
  Names names;
  for (const TensorInfo& tensor : catalog.tensors) names.push_back(tensor.name);
  return names;
}

std::string file_of(const Catalog& catalog, const std::string& name) {
  return catalog.files[catalog.tensors[catalog.find(name).value()].file].name;
}

TEST(Copies, TheIndexNamesTheFile) {
  for (const char* named : {kFirst, kSecond}) {
    const TempDir dir;
    write_copies(dir / kFirst, {"a", "c"});
    write_copies(dir / kSecond, {"a", "b"}, {4, 1});
    write_text(dir / kIndexName, index_json({{"a", named}, {"b", kSecond}, {"c", kFirst}}));
    const Catalog catalog = open_hf_catalog(dir.path());
    EXPECT_EQ(names_in(catalog), (Names{"a", "b", "c"}));
    EXPECT_EQ(file_of(catalog, "a"), named);
    ASSERT_EQ(catalog.notes.size(), 1U);
    EXPECT_NE(catalog.notes[0].find("the index names"), std::string::npos);
  }
}

TEST(Copies, EqualOnesAreOneWithoutAnIndex) {
  const TempDir dir;
  write_copies(dir / kFirst, {"a", "c"});
  write_copies(dir / kSecond, {"a", "b"});
  const Catalog catalog = open_hf_catalog(dir.path());
  EXPECT_EQ(names_in(catalog), (Names{"a", "b", "c"}));
  EXPECT_EQ(file_of(catalog, "a"), kFirst);
  ASSERT_EQ(catalog.notes.size(), 1U);
  EXPECT_NE(catalog.notes[0].find("the same bytes"), std::string::npos);
}

TEST(Copies, OnesThatDifferAreBadInputWithoutAnIndex) {
  const TempDir dir;
  write_copies(dir / kFirst, {"a", "c"});
  write_copies(dir / kSecond, {"a", "b"}, {4, 1});
  const Error error = catch_error([&] { open_hf_catalog(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "a");
  EXPECT_EQ(error.file(), dir / kFirst);
  EXPECT_NE(error.sentence().find(kSecond), std::string::npos);
}

// Equal bytes aren't enough. The copies must be the same tensor, up to their last byte.
TEST(Copies, OnesOfAnotherDtypeOrWithAnotherLastByteDiffer) {
  const std::string bytes((std::size_t{1} << 20) + 2, 'x');
  const auto is_one = [&](DType dtype, const std::string& copy) {
    const TempDir dir;
    const Shape shape{bytes.size() / 2};
    SafetensorsBuilder().tensor("a", DType::bf16, shape, bytes).write(dir / kFirst);
    SafetensorsBuilder().tensor("a", dtype, shape, copy).write(dir / kSecond);
    try {
      return open_hf_catalog(dir.path()).tensors.size() == 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return false;
    }
  };
  std::string other = bytes;
  other.back() = 'y';
  EXPECT_TRUE(is_one(DType::bf16, bytes));
  EXPECT_FALSE(is_one(DType::f16, bytes));
  EXPECT_FALSE(is_one(DType::bf16, other));
}

// Files that are left of a damaged model follow the index too.
TEST(Copies, TheIndexNamesTheFileDespiteLosses) {
  Choice choice;
  choice.despite_loss = true;
  for (const char* named : {kFirst, kSecond}) {
    const TempDir dir;
    write_copies(dir / kFirst, {"a"});
    write_copies(dir / kSecond, {"a"}, {4, 1});
    write_text(
        dir / kIndexName,
        index_json({{"a", named}, {"b", "model-3.safetensors"}, {"c", kFirst}, {"d", kSecond}}));
    const Catalog catalog = open_hf_catalog(dir.path(), choice);
    EXPECT_EQ(file_of(catalog, "a"), named);
    ASSERT_EQ(catalog.lost.size(), 1U);
    EXPECT_EQ(catalog.lost[0].file(), dir / "model-3.safetensors");
  }
}

TEST(Copies, ATensorThatTheIndexDoesNotListIsRefused) {
  for (const char* name : {"0", "aa", "z"}) {
    const TempDir dir;
    write_copies(dir / kFirst, {"a", name});
    write_copies(dir / kSecond, {"b", name});
    write_text(dir / kIndexName, index_json({{"a", kFirst}, {"b", kSecond}}));
    const Error error = catch_error([&] { open_hf_catalog(dir.path()); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.sentence(), "the file holds a tensor that the index doesn't list");
    EXPECT_EQ(error.file(), dir / kFirst);
    EXPECT_EQ(error.tensor(), name);
  }
}

TEST(Copies, OnesInPyTorchFilesNeedAnIndex) {
  const TempDir dir;
  for (const char* name : {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"})
    TorchFileBuilder().tensor("a", DType::u8, {2}, "xy").write(dir / name);
  const Error error = catch_error([&] { open_source(StorePath(dir.path())); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "the tensor is in two files, also in \"pytorch_model-00002-of-00002.bin\", and no "
            "index tells which one to read");
  EXPECT_EQ(error.tensor(), "a");
}

// The index lists a tensor in a file that is gone, so it can't tell which copy is meant.
TEST(Copies, AStaleIndexDoesNotChooseAmongThem) {
  const TempDir dir;
  write_copies(dir / kFirst, {"a"});
  write_copies(dir / kSecond, {"a"}, {4, 1});
  write_text(dir / kIndexName, index_json({{"a", "model-00001-of-00003.safetensors"}}));
  const Error error = catch_error([&] { open_hf_catalog(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "a");
}

// A note names the tensors, and says why one copy was read.
TEST(Copies, ANoteNamesTheTensorsThatHadTwo) {
  const TempDir dir;
  write_copies(dir / kFirst, {"a", "b", "c"});
  write_copies(dir / kSecond, {"a", "b", "d"});
  EXPECT_EQ(open_hf_catalog(dir.path()).notes,
            Names{"2 tensors are in two files (\"a\", \"b\"), with the same bytes: hfshard read "
                  "the first copy"});
  write_text(dir / kIndexName,
             index_json({{"a", kSecond}, {"b", kFirst}, {"c", kFirst}, {"d", kSecond}}));
  EXPECT_EQ(open_hf_catalog(dir.path()).notes,
            Names{"2 tensors are in two files (\"a\", \"b\"): hfshard read the copy in the file "
                  "that the index names, and left out the other"});
  const TempDir one;
  write_copies(one / kFirst, {"a"});
  write_copies(one / kSecond, {"a"});
  EXPECT_EQ(open_hf_catalog(one.path()).notes,
            Names{"the tensor \"a\" is in two files, with the same bytes: hfshard read the first "
                  "copy"});
}

TEST(Copies, TheHintFitsTheNamesOfTheFiles) {
  const auto hint = [](const std::string& first, const std::string& second, bool has_index) {
    const TempDir dir;
    write_copies(dir / first, {"a"});
    write_copies(dir / second, {"a"}, {4, 1});
    if (has_index) write_text(dir / kIndexName, index_json({{"a", first}}));
    Choice choice;
    choice.files.ignore_index = true;
    const Error error = catch_error([&] { open_hf_catalog(dir.path(), choice); });
    EXPECT_EQ(error.sentence(),
              "the tensor is in two files, also in \"" + second + "\", and the copies differ");
    EXPECT_EQ(error.file(), dir / first);
    return error.hint_text();
  };
  const std::string add =
      "add model.safetensors.index.json, whose weight_map tells which file to read";
  EXPECT_EQ(hint(kFirst, kSecond, false), add) << "parts of one checkpoint";
  EXPECT_EQ(
      hint("model-00001-of-00001.safetensors", "model-mtp.safetensors", false),
      "pass --exclude model-mtp.safetensors or 'model-*.safetensors' to leave files out, or " +
          add);
  EXPECT_EQ(hint(kFirst, kSecond, true),
            "leave out --ignore-index; model.safetensors.index.json tells which file to read");
}

}  // namespace
}  // namespace hfshard::format::safetensors
