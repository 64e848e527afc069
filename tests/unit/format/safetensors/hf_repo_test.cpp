#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "catalog/catalog.h"
#include "format/hf_index.h"
#include "format/hf_open.h"
#include "format/safetensors/open.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format::safetensors {
namespace {

using Names = std::vector<std::string>;

void write_model(const std::string& path, const Names& tensors) {
  SafetensorsBuilder builder;
  for (const std::string& name : tensors) builder.tensor(name, DType::bf16, {2, 2});
  builder.write(path);
}

Names tensor_names(const Catalog& catalog) {
  Names names;
  for (const TensorInfo& tensor : catalog.tensors) names.push_back(tensor.name);
  return names;
}

Error open_error(const std::string& path) {
  return catch_error([&] { open_hf_catalog(path); });
}

// Writes two files and an index. The first has the tensors "a" and "c", the second "b".
void write_indexed(const TempDir& dir) {
  write_model(dir / "model-00001-of-00002.safetensors", {"a", "c"});
  write_model(dir / "model-00002-of-00002.safetensors", {"b"});
  write_text(dir / kIndexName, index_json({{"a", "model-00001-of-00002.safetensors"},
                                           {"b", "model-00002-of-00002.safetensors"},
                                           {"c", "model-00001-of-00002.safetensors"}}));
}

TEST(OpenCatalog, OfSeveralSetsOfTheSameWeightsItTakesTheOneWithoutAVariant) {
  const TempDir dir;
  write_text(dir / "config.json", "{}\n");
  write_model(dir / "model.safetensors", {"a", "b"});
  write_model(dir / "model.fp16.safetensors", {"a", "b"});
  write_model(dir / "model.bf16-00001-of-00001.safetensors", {"a", "b"});
  const Catalog catalog = open_hf_catalog(dir.path());
  ASSERT_EQ(catalog.files.size(), 1U);
  EXPECT_EQ(catalog.files[0].name, "model.safetensors");
  ASSERT_EQ(catalog.notes.size(), 1U);
  EXPECT_NE(catalog.notes[0].find("model.fp16.safetensors"), std::string::npos);
  EXPECT_EQ(tensor_names(open_hf_catalog(dir / "model.fp16.safetensors")), (Names{"a", "b"}));
}

Names files_chosen(const TempDir& dir, const Names& take, const Names& leave) {
  Choice choice;
  choice.files = {take, leave};
  Names out;
  for (const CatalogFile& file : open_hf_catalog(dir.path(), choice).files)
    out.push_back(file.name);
  return out;
}

TEST(OpenCatalog, OfSeveralSetsOfWeightsTheOneIsReadThatIsChosen) {
  const TempDir dir;
  write_indexed(dir);
  write_model(dir / "model.fp16-00001-of-00002.safetensors", {"a", "c"});
  write_model(dir / "model.fp16-00002-of-00002.safetensors", {"b"});
  write_model(dir / "consolidated.safetensors", {"d"});
  const Names usual{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  const Names variant{"model.fp16-00001-of-00002.safetensors",
                      "model.fp16-00002-of-00002.safetensors"};
  EXPECT_EQ(files_chosen(dir, {}, {}), usual);
  EXPECT_EQ(files_chosen(dir, {"model.fp16*.safetensors"}, {}), variant);
  EXPECT_EQ(files_chosen(dir, {"consolidated.safetensors"}, {}),
            (Names{"consolidated.safetensors"}));
  // The index counts while all of its files are included.
  EXPECT_EQ(files_chosen(dir, {"model-*.safetensors"}, {}), usual);
  EXPECT_EQ(files_chosen(dir, {}, {"model.fp16*.safetensors"}), usual);
  EXPECT_EQ(files_chosen(dir, {}, {"model-*.safetensors", "consolidated.safetensors"}), variant);
  EXPECT_EQ(files_chosen(dir, {"model*.safetensors"}, {"model-*.safetensors"}), variant);
}

TEST(OpenCatalog, AChoiceOfFilesThatCannotBeReadIsRefused) {
  const TempDir dir;
  write_model(dir / "a-00001-of-00002.safetensors", {"a"});
  write_model(dir / "a-00002-of-00002.safetensors", {"b"});
  const auto refused = [&](const Names& take, const Names& leave) {
    return catch_error([&] { files_chosen(dir, take, leave); });
  };
  EXPECT_EQ(refused({"b*.safetensors"}, {}).code(), ErrorCode::usage);
  EXPECT_NE(refused({"b*.safetensors"}, {}).hint_text().find("a-00001-of-00002"),
            std::string::npos);
  EXPECT_EQ(refused({}, {"b*.safetensors"}).code(), ErrorCode::usage);
  EXPECT_EQ(refused({}, {"*.safetensors"}).code(), ErrorCode::usage);
  // Excluded parts aren't missing, and a note names them.
  EXPECT_EQ(files_chosen(dir, {"a-00001*.safetensors"}, {}),
            (Names{"a-00001-of-00002.safetensors"}));
  Choice part;
  part.files.take = {"a-00001*.safetensors"};
  const std::string note = "left out by your globs, with the same parts: ";
  EXPECT_EQ(open_hf_catalog(dir.path(), part).notes,
            Names{note + "\"a-00002-of-00002.safetensors\""});
  part.files.take = {"a-00001-of-00002.safetensors"};
  const std::string file = dir / "a-00001-of-00002.safetensors";
  EXPECT_EQ(catch_error([&] { open_hf_catalog(file, part); }).code(), ErrorCode::usage);
  write_model(dir / "adapter_model.safetensors", {"lora"});
  EXPECT_EQ(refused({"adapter*.safetensors"}, {}).code(), ErrorCode::unsupported);
}

TEST(OpenCatalog, ReadsAnIndexedDirectorySortedByName) {
  const TempDir dir;
  write_indexed(dir);
  write_text(dir / "config.json", "{\"x\": 1}\n");
  const Catalog catalog = open_hf_catalog(dir.path());
  EXPECT_EQ(catalog.location, dir.path());
  EXPECT_EQ(tensor_names(catalog), (Names{"a", "b", "c"}));
  ASSERT_EQ(catalog.files.size(), 2U);
  EXPECT_EQ(catalog.files[1].name, "model-00002-of-00002.safetensors");
  EXPECT_EQ(catalog.files[1].path, dir / "model-00002-of-00002.safetensors");
  EXPECT_EQ(catalog.files[1].size_bytes, std::filesystem::file_size(catalog.files[1].path.name()));
  EXPECT_EQ(catalog.files[1].header_sha256.size(), 64U);
  EXPECT_EQ(catalog.tensors[1].file, 1U);
  EXPECT_EQ(catalog.config_text, "{\"x\": 1}\n");
  EXPECT_EQ(catalog.find("b"), 1U);
  EXPECT_FALSE(catalog.find("bb"));
  EXPECT_TRUE(catalog.notes.empty());
}

TEST(OpenCatalog, FilesTheIndexDoesNotListAreIgnoredAndSaid) {
  const TempDir dir;
  write_indexed(dir);
  write_text(dir / "consolidated.00.safetensors", "not even a safetensors file");
  write_text(dir / "original/consolidated.00.pth", "x");
  const Catalog catalog = open_hf_catalog(dir.path());
  EXPECT_EQ(catalog.files.size(), 2U);
  EXPECT_EQ(catalog.notes,
            (Names{"ignored (not listed in the index): \"consolidated.00.safetensors\"",
                   "ignored (not listed in the index): \"original/\""}));
}

TEST(OpenCatalog, AMissingFileOfTheIndexIsNotFoundAndNamed) {
  const TempDir dir;
  write_indexed(dir);
  std::filesystem::remove(dir / "model-00002-of-00002.safetensors");
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "model-00002-of-00002.safetensors");
}

TEST(OpenCatalog, AMissingFileDuringADownloadIsBadInputWithAHint) {
  for (const char* partial : {"x.incomplete", ".cache/huggingface/download/x.incomplete"}) {
    const TempDir dir;
    write_indexed(dir);
    std::filesystem::remove(dir / "model-00002-of-00002.safetensors");
    write_text(dir / partial, "");
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << partial;
    EXPECT_EQ(error.file(), dir / "model-00002-of-00002.safetensors");
    EXPECT_NE(error.hint_text().find("x.incomplete"), std::string::npos);
  }
}

TEST(OpenCatalog, SnapshotLinksOfTheHubCacheAreFollowed) {
  const TempDir dir;
  write_model(dir / "blobs/0123", {"a"});
  std::filesystem::create_directories(dir / "snapshots/rev");
  std::filesystem::create_symlink("../../blobs/0123", dir / "snapshots/rev/model.safetensors");
  EXPECT_EQ(tensor_names(open_hf_catalog(dir / "snapshots/rev")), (Names{"a"}));
  EXPECT_EQ(tensor_names(open_hf_catalog(dir / "snapshots/rev/")), (Names{"a"}));

  const Error root = open_error(dir.path());
  EXPECT_EQ(root.code(), ErrorCode::not_found);
  EXPECT_NE(root.hint_text().find("snapshots/"), std::string::npos);

  std::filesystem::remove(dir / "blobs/0123");
  EXPECT_EQ(open_error(dir / "snapshots/rev").code(), ErrorCode::not_found);
  write_text(dir / "blobs/0123.incomplete", "");
  EXPECT_EQ(open_error(dir / "snapshots/rev").code(), ErrorCode::bad_input);
}

TEST(OpenCatalog, ATensorInAnotherFileThanTheIndexSaysIsBadInput) {
  const TempDir dir;
  write_indexed(dir);
  write_text(dir / kIndexName, index_json({{"a", "model-00001-of-00002.safetensors"},
                                           {"b", "model-00002-of-00002.safetensors"},
                                           {"c", "model-00002-of-00002.safetensors"}}));
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "c");
  EXPECT_EQ(error.file(), dir / "model-00002-of-00002.safetensors");
  EXPECT_NE(error.hint_text().find("model-00001"), std::string::npos);
}

TEST(OpenCatalog, ATensorOfTheIndexThatNoFileHoldsIsBadInput) {
  for (const char* name : {"0", "bb", "z"}) {  // before, between and after existing ones
    const TempDir dir;
    write_model(dir / "model-00001-of-00001.safetensors", {"a", "c"});
    const std::string file = "model-00001-of-00001.safetensors";
    write_text(dir / kIndexName, index_json({{"a", file}, {"c", file}, {name, file}}));
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.tensor(), name);
    EXPECT_EQ(error.file(), dir / file);
  }
}

TEST(OpenCatalog, ATensorThatTheIndexDoesNotListIsBadInput) {
  for (const char* name : {"0", "bb", "z"}) {
    const TempDir dir;
    const std::string file = "model-00001-of-00001.safetensors";
    write_model(dir / file, {"a", "c", name});
    write_text(dir / kIndexName, index_json({{"a", file}, {"c", file}}));
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.tensor(), name);
    EXPECT_EQ(error.file(), dir / file);
    EXPECT_TRUE(error.range());
  }
}

TEST(OpenCatalog, AnIndexThatLeavesItsDirectoryIsRefused) {
  const std::string nul("a\0.safetensors", 14);
  for (const std::string& file :
       {std::string("../x.safetensors"), std::string("/tmp/x.safetensors"),
        std::string("a/../../x.safetensors"), std::string(), std::string("a//x.safetensors"),
        std::string("./../x.safetensors"), nul}) {
    const TempDir dir;
    write_text(dir / kIndexName, index_json({{"a", file}}));
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << file;
    EXPECT_EQ(error.file(), dir / kIndexName) << file;
  }
}

TEST(OpenCatalog, AMalformedIndexIsBadInputAndNamed) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"weight_map":{}})", R"({"weight_map":[]})",
        R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})",
        "version https://git-lfs.github.com/spec/v1\n"}) {
    const TempDir dir;
    write_text(dir / kIndexName, text);
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << text;
    EXPECT_EQ(error.file(), dir / kIndexName) << text;
  }
  const TempDir dir;
  write_text(dir / kIndexName, index_json({{"a", "pytorch_model.bin"}}));
  EXPECT_EQ(open_error(dir.path()).code(), ErrorCode::unsupported);
}

// Only the names of the metadata's members matter, for a note.
TEST(OpenCatalog, MetadataOfAnIndexThatIsNotAnObjectIsIgnored) {
  const TempDir dir;
  write_model(dir / "m.safetensors", {"a"});
  for (const char* metadata : {"null", "[]", "7", "\"text\""}) {
    write_text(dir / kIndexName,
               fmt::format(R"({{"metadata":{},"weight_map":{{"a":"m.safetensors"}}}})", metadata));
    const Catalog catalog = open_hf_catalog(dir.path());
    EXPECT_EQ(tensor_names(catalog), Names{"a"}) << metadata;
    EXPECT_TRUE(catalog.notes.empty()) << metadata;
  }
}

TEST(OpenCatalog, ReadsFilesInSubdirectoriesThatTheIndexLists) {
  const TempDir dir;
  write_model(dir / "parts/m.safetensors", {"a"});
  write_text(dir / kIndexName, index_json({{"a", "parts/m.safetensors"}}));
  EXPECT_EQ(open_hf_catalog(dir.path()).files.at(0).name, "parts/m.safetensors");
}

TEST(OpenCatalog, WithoutAnIndexReadsAllModelFiles) {
  const TempDir dir;
  write_model(dir / "model-00001-of-00002.safetensors", {"a", "c"});
  write_model(dir / "model-00002-of-00002.safetensors", {"b"});
  write_model(dir / "consolidated.safetensors", {"x"});
  const Catalog catalog = open_hf_catalog(dir.path());
  EXPECT_EQ(tensor_names(catalog), (Names{"a", "b", "c"}));
  EXPECT_EQ(catalog.notes.size(), 1U);
}

TEST(OpenCatalog, WithoutAnIndexAMissingNumberedPartIsNotFound) {
  const TempDir dir;
  write_model(dir / "model-00001-of-00003.safetensors", {"a"});
  write_model(dir / "model-00003-of-00003.safetensors", {"b"});
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "model-00002-of-00003.safetensors");
}

TEST(OpenCatalog, WithoutAnIndexTheFirstAndTheLastNumberedPartMustBeThereToo) {
  for (const std::uint32_t first : {0U, 1U}) {
    for (std::uint32_t absent = first; absent < first + 3; ++absent) {
      const TempDir dir;
      const auto part = [](std::uint32_t i) {
        return "model-0000" + std::to_string(i) + "-of-00003.safetensors";
      };
      for (std::uint32_t i = first; i < first + 3; ++i) write_model(dir / part(i), {part(i)});
      EXPECT_EQ(open_hf_catalog(dir.path()).files.size(), 3U);
      std::filesystem::remove(dir / part(absent));
      const Error error = open_error(dir.path());
      EXPECT_EQ(error.code(), ErrorCode::not_found) << absent;
      // Without 00000 the series looks like one that starts at 1.
      EXPECT_EQ(error.file(), dir / part(first == 0 && absent == 0 ? 3 : absent));
    }
  }
  for (const std::string numbers :
       {"0000a-of-00009", "of-00009", "1-of-9a", "1-of-1234567890", "1234567890-of-2"}) {
    const TempDir dir;  // without a number there is no series
    write_model(dir / ("model-" + numbers + ".safetensors"), {"a"});
    EXPECT_EQ(open_hf_catalog(dir.path()).files.size(), 1U) << numbers;
  }
}

// deepseek-ai/DeepSeek-V3 and moonshotai/Kimi-K2-Instruct have such names.
TEST(OpenCatalog, NumbersOfPartsAreAsWideAsTheyAre) {
  const std::string long_count = "-of-000012.safetensors";
  const auto padded = [&](std::uint32_t i) { return fmt::format("model-{:05}{}", i, long_count); };
  const auto plain = [](std::uint32_t i) { return fmt::format("model-{}-of-12.safetensors", i); };
  for (const std::function<std::string(std::uint32_t)>& part :
       {std::function<std::string(std::uint32_t)>(padded),
        std::function<std::string(std::uint32_t)>(plain)}) {
    for (const std::uint32_t absent : {1U, 2U, 9U, 10U, 12U}) {
      const TempDir dir;
      for (std::uint32_t i = 1; i <= 12; ++i) write_model(dir / part(i), {part(i)});
      EXPECT_EQ(open_hf_catalog(dir.path()).files.size(), 12U);
      std::filesystem::remove(dir / part(absent));
      const Error error = open_error(dir.path());
      EXPECT_EQ(error.code(), ErrorCode::not_found) << absent;
      EXPECT_EQ(error.file(), dir / part(absent));
    }
  }
  const TempDir dir;  // only one of two exists
  write_model(dir / "model-1-of-2.safetensors", {"a"});
  EXPECT_EQ(open_error(dir.path()).file(), dir / "model-2-of-2.safetensors");
}

TEST(OpenCatalog, WithoutAnIndexTheOnlySafetensorsFileIsTaken) {
  const TempDir dir;
  write_model(dir / "weights.safetensors", {"a"});
  EXPECT_EQ(tensor_names(open_hf_catalog(dir.path())), (Names{"a"}));
  write_model(dir / "more.safetensors", {"b"});
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), dir.path());
}

TEST(OpenCatalog, OtherWeightFormatsAreUnsupportedAndNamed) {
  for (const char* name : {"pytorch_model.bin", "consolidated.00.pth", "model.pt", "q4.gguf"}) {
    const TempDir dir;
    write_text(dir / name, "x");
    write_text(dir / "config.json", "{}");
    const Error error = open_error(dir.path());
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
    EXPECT_EQ(error.file(), dir.path()) << name;
    EXPECT_NE(error.sentence().find(name), std::string::npos) << name;
    EXPECT_FALSE(error.hint_text().empty()) << name;
    EXPECT_EQ(open_error(dir / name).code(), ErrorCode::unsupported) << name;
  }
}

TEST(OpenCatalog, ADirectoryWithoutWeightsSaysWhatItLacks) {
  const auto refused = [](const std::vector<std::string>& names) {
    const TempDir dir;
    for (const std::string& name : names) write_text(dir / name, "{}");
    return open_error(dir.path());
  };
  EXPECT_EQ(refused({"training_args.bin"}).code(), ErrorCode::not_found);
  EXPECT_EQ(refused({"config.json", "x.incomplete"}).code(), ErrorCode::bad_input);
  const Error index = refused({"pytorch_model.bin.index.json"});
  EXPECT_EQ(index.code(), ErrorCode::not_found);
  EXPECT_NE(index.hint_text().find("model.safetensors.index.json"), std::string::npos);
  const Error five = refused({"1.bin", "2.bin", "3.bin", "4.bin", "5.bin"});
  EXPECT_NE(five.sentence().find("\"4.bin\" and 1 more"), std::string::npos) << five.sentence();
  const TempDir dir;
  std::filesystem::create_directory(dir / "model.safetensors");
  EXPECT_EQ(open_error(dir.path()).code(), ErrorCode::bad_input);
  EXPECT_EQ(open_error(dir.path()).file(), dir / "model.safetensors");
}

// A run compares these with the file that it opens, and refuses a changed source.
TEST(OpenCatalog, FilesAreRecordedWithTheirIdentity) {
  const TempDir dir;
  write_indexed(dir);
  const Catalog catalog = open_hf_catalog(dir.path());
  for (const CatalogFile& file : catalog.files) {
    const FileStamp stamp = file_info(file.path.name())->stamp;
    EXPECT_EQ(file.identity(), identity_of(stamp));
    EXPECT_EQ(file.identity(), file.path.find()->identity);
    EXPECT_GT(stamp.mtime_ns, 0);
  }
  EXPECT_NE(catalog.files[0].version, catalog.files[1].version);
  EXPECT_NE(catalog.files[0].header_sha256, catalog.files[1].header_sha256);
}

TEST(OpenNames, NeedAnIndexAConfigAndNoneOfTheFiles) {
  const TempDir dir;
  write_indexed(dir);
  EXPECT_FALSE(open_hf_names(dir / "none"));
  EXPECT_FALSE(open_hf_names(dir.path())) << "the files are there";
  std::filesystem::remove(dir / "model-00001-of-00002.safetensors");
  write_text(dir / "config.json", "{}");
  EXPECT_FALSE(open_hf_names(dir.path())) << "one of the files is there";
  std::filesystem::remove(dir / "model-00002-of-00002.safetensors");
  const std::optional<NameList> names = open_hf_names(dir.path());
  ASSERT_TRUE(names);
  EXPECT_EQ(names->names, (Names{"a", "b", "c"}));
  EXPECT_EQ(names->config_text, "{}");
  std::filesystem::remove(dir / "config.json");
  EXPECT_FALSE(open_hf_names(dir.path()));
  EXPECT_FALSE(open_hf_names(dir / kIndexName));
}

TEST(OpenCatalog, AnAdapterIsUnsupported) {
  const TempDir dir;
  write_text(dir / "adapter_config.json", "{}");
  write_model(dir / "adapter_model.safetensors", {"a"});
  for (const std::string& path : {dir.path(), dir / "adapter_model.safetensors"}) {
    const Error error = open_error(path);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.hint_text().find("merge"), std::string::npos);
  }
  std::filesystem::remove(dir / "adapter_model.safetensors");
  EXPECT_EQ(open_error(dir.path()).code(), ErrorCode::unsupported);
}

TEST(OpenCatalog, ReadsOneFileWithTheConfigBesideIt) {
  const TempDir dir;
  write_model(dir / "any.safetensors", {"a"});
  EXPECT_EQ(open_hf_catalog(dir / "any.safetensors").config_text, "");
  write_text(dir / "config.json", "{}");
  const Catalog catalog = open_hf_catalog(dir / "any.safetensors");
  EXPECT_EQ(catalog.config_text, "{}");
  EXPECT_EQ(catalog.files.at(0).name, "any.safetensors");
  EXPECT_EQ(catalog.files.at(0).path, dir / "any.safetensors");
}

TEST(OpenCatalog, AMissingPathIsNotFoundAndHubIdsGetAHint) {
  const TempDir dir;
  const Error error = open_error(dir / "none");
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "none");
  const Error hub = open_error("Qwen/Qwen3-0.6B");
  EXPECT_EQ(hub.code(), ErrorCode::not_found);
  EXPECT_EQ(hub.hint_text(), "for the Hub model of this name, pass hf://Qwen/Qwen3-0.6B");
  for (const char* path : {"./none", "none", "a/b/none", "a b/none"}) {
    EXPECT_EQ(open_error(path).code(), ErrorCode::not_found);
    EXPECT_TRUE(open_error(path).hint_text().empty()) << path;
  }
  EXPECT_NE(open_error("~/none").hint_text().find("quotes"), std::string::npos)
      << open_error("~/none").hint_text();
  EXPECT_EQ(open_error(dir.path()).code(), ErrorCode::not_found);  // an empty directory
  std::filesystem::create_symlink("nowhere", dir / "link");
  EXPECT_FALSE(open_error(dir / "link").hint_text().empty());
}

TEST(OpenCatalog, ErrorsInAFileNameTheFile) {
  const TempDir dir;
  write_indexed(dir);
  SafetensorsBuilder()
      .tensor("b", DType::f32, {4})
      .lie_about_range("b", {0, 4096})
      .write(dir / "model-00002-of-00002.safetensors");
  const Error error = open_error(dir.path());
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), dir / "model-00002-of-00002.safetensors");
  EXPECT_EQ(error.tensor(), "b");
}

TEST(OpenCatalog, SideFilesAreThoseThatTravelWithAModel) {
  const TempDir dir;
  write_indexed(dir);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "tokenizer.model", "special_tokens_map.json", "vocab.json", "merges.txt",
        "chat_template.jinja", "preprocessor_config.json", "README.md", "LICENSE",
        "training_args.bin", "tokenizer.safetensors", ".gitattributes", "tokenizer.index.json",
        "vocab.bin", "tokenizer_huge.json"}) {
    write_text(dir / name, "{}");
  }
  std::filesystem::resize_file(dir / "tokenizer_huge.json", (256U << 20) + 1);  // a sparse file
  write_text(dir / "tokenizer_large.json", "{}");
  std::filesystem::resize_file(dir / "tokenizer_large.json", 256U << 20);
  std::filesystem::create_directory(dir / "tokenizer_dir");
  const Catalog catalog = open_hf_catalog(dir.path());
  EXPECT_EQ(
      catalog.side_files,
      (Names{"chat_template.jinja", "config.json", "generation_config.json", "merges.txt",
             "preprocessor_config.json", "special_tokens_map.json", "tokenizer.json",
             "tokenizer.model", "tokenizer_config.json", "tokenizer_large.json", "vocab.json"}));
}

}  // namespace
}  // namespace hfshard::format::safetensors
