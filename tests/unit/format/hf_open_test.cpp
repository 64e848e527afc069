#include "format/hf_open.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/hf_index.h"
#include "format/safetensors/format.h"
#include "format/safetensors/open.h"
#include "support/catch_error.h"
#include "support/failed_reads.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format {
namespace {

using FileNames = std::vector<std::string>;

void write_tensor(const std::string& path, const std::string& tensor = "a") {
  SafetensorsBuilder().tensor(tensor, DType::bf16, {2}).write(path);
}

FileNames opened_files(const std::string& directory, const FileGlobs& globs = {}) {
  Choice choice;
  choice.files = globs;
  FileNames out;
  for (const CatalogFile& file : safetensors::open_hf_catalog(directory, choice).files)
    out.push_back(file.name);
  return out;
}

// Other weights can be in the directory of a model with several files.
TEST(OpenHfFile, IsAPartIfItsNumberOrAnIndexOfSeveralSaysSo) {
  const TempDir dir;
  const std::string numbered = "model-00001-of-00002.safetensors";
  const std::string other = "other.safetensors";
  for (const std::string& name : {numbered, other})
    SafetensorsBuilder().tensor("a", DType::bf16, {2}).write(dir / name);
  write_text(dir / "tokenizer.json", "{}");
  const auto part_of = [&](const std::string& name) {
    const Catalog catalog = safetensors::open_hf_catalog(dir / name);
    EXPECT_EQ(catalog.side_files.empty(), !catalog.part.empty());
    EXPECT_EQ(catalog.notes.empty(), catalog.part.empty());
    return catalog.part;
  };
  EXPECT_EQ(part_of(numbered), "shard 1 of 2");
  EXPECT_EQ(part_of(other), "");
  const std::string index = dir / "model.safetensors.index.json";
  write_text(index, index_json({{"a", numbered}, {"b", "model-00002-of-00002.safetensors"}}));
  EXPECT_EQ(part_of(other), "") << "not listed";
  write_text(index, index_json({{"a", other}, {"b", "model-00002-of-00002.safetensors"}}));
  EXPECT_EQ(part_of(other), "one of 2 files");
  write_text(index, index_json({{"a", other}}));
  EXPECT_EQ(part_of(other), "") << "the only one";
  write_text(index, "{");
  EXPECT_EQ(part_of(other), "") << "an index that can't be read";
  SafetensorsBuilder()
      .tensor("a", DType::bf16, {2})
      .write(dir / "model-00001-of-00001.safetensors");
  EXPECT_EQ(part_of("model-00001-of-00001.safetensors"), "") << "one of one";
  write_text(dir / "config.json", "{}");
  EXPECT_TRUE(safetensors::open_hf_catalog(dir / numbered).notes.empty()) << "a config is there";
}

// A stale index lists no file that is there. Files that were left by another model can be.
TEST(OpenHfDirectory, OnlyOneWholeSeriesReplacesAStaleIndex) {
  const auto opens = [](const FileNames& names) {
    const TempDir dir;
    for (const std::string& name : names) write_tensor(dir / (name + ".safetensors"), name);
    write_text(dir / "model.safetensors.index.json", index_json({{"a", "gone.safetensors"}}));
    try {
      EXPECT_EQ(opened_files(dir.path()).size(), names.size());
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_EQ(error.file(), dir / "gone.safetensors");
      return false;
    }
  };
  EXPECT_TRUE(opens({"model-1-of-2", "model-2-of-2"}));
  EXPECT_TRUE(opens({"model-0-of-2", "model-1-of-2"}));
  EXPECT_FALSE(opens({"model-2-of-2", "model-3-of-2"})) << "the first is missing";
  EXPECT_FALSE(opens({"model-1-of-2", "model-3-of-2"})) << "the second is missing";
  EXPECT_FALSE(opens({"model-01-of-2", "model-1-of-2", "model-2-of-2"})) << "a number twice";
  EXPECT_FALSE(opens({"model-01-of-3", "model-1-of-3", "model-3-of-3"})) << "and one missing";
  EXPECT_FALSE(opens({"model-1-of-1", "model-1-of-2", "model-2-of-2"})) << "two series";
}

TEST(OpenHfDirectory, OtherFilesDoNotHideAWholeSeries) {
  const TempDir dir;
  const FileNames series{"model-1-of-2.safetensors", "model-2-of-2.safetensors"};
  for (const std::string& name : series) write_tensor(dir / name, name);
  for (const char* name : {"model-x.safetensors", "model-y-1-of-2.safetensors"})
    write_tensor(dir / name, name);
  write_text(dir / "model.safetensors.index.json", index_json({{"a", "gone.safetensors"}}));
  EXPECT_EQ(opened_files(dir.path()), series);
}

TEST(OpenHfDirectory, AFileIsMissingIfTheIndexListsItBesideAWholeSeries) {
  const TempDir dir;
  const FileNames series{"model-1-of-2.safetensors", "model-2-of-2.safetensors"};
  for (const std::string& name : series) write_tensor(dir / name, name);
  write_text(dir / "model.safetensors.index.json",
             index_json({{series[0], series[0]}, {series[1], series[1]}, {"x", "x.safetensors"}}));
  const Error error = catch_error([&] { opened_files(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "a file that the index lists is missing");
  EXPECT_EQ(error.file(), dir / "x.safetensors");
  EXPECT_EQ(error.hint_text(),
            "the download may be partial; if the index is stale, pass --ignore-index");
}

TEST(OpenHfDirectory, TheWholeFileReplacesItsPartsAndItsVariantsOnly) {
  const TempDir dir;
  for (const char* name : {"model", "model-mtp", "model-1-of-2", "model.fp16", "other"})
    write_tensor(dir / (std::string(name) + ".safetensors"), name);
  const Catalog catalog = safetensors::open_hf_catalog(dir.path());
  EXPECT_EQ(opened_files(dir.path()), (FileNames{"model-mtp.safetensors", "model.safetensors"}));
  EXPECT_EQ(catalog.notes,
            (FileNames{"ignored (transformers reads \"model.safetensors\" first): "
                       "\"model-1-of-2.safetensors\"",
                       "ignored (variants; pass --include FILE to select one): "
                       "\"model.fp16.safetensors\"",
                       "ignored (not named model*.safetensors): \"other.safetensors\""}));
}

TEST(OpenHfDirectory, VariantsAreReadIfNoWholeFileIsThere) {
  const TempDir dir;
  write_tensor(dir / "model.fp16.safetensors");
  EXPECT_EQ(opened_files(dir.path()), FileNames{"model.fp16.safetensors"});
}

TEST(OpenHfDirectory, WeightsNamedAsDiffusersDoesAreReadIfNoModelIsThere) {
  const TempDir dir;
  const FileNames names{"diffusion_pytorch_model.safetensors", "other.safetensors"};
  for (const std::string& name : names) write_tensor(dir / name, name);
  EXPECT_EQ(opened_files(dir.path()), FileNames{names[0]});
  write_tensor(dir / "model.safetensors", "m");
  EXPECT_EQ(opened_files(dir.path()), FileNames{"model.safetensors"});
}

TEST(OpenHfDirectory, GlobsOfFilesTakeSomeOfThoseThatAreThere) {
  const TempDir dir;
  for (const char* name : {"a", "b"})
    write_tensor(dir / (std::string(name) + ".safetensors"), name);
  using Globs = std::vector<std::string>;
  const auto refused = [](const std::string& path, const Globs& take, const Globs& leave) {
    FileGlobs globs;
    globs.take = take;
    globs.leave = leave;
    const Error error = catch_error([&] { opened_files(path, globs); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.file(), path);
    return std::pair(error.sentence(), error.hint_text());
  };
  const std::string both = "there are \"a.safetensors\", \"b.safetensors\"";
  EXPECT_EQ(refused(dir.path(), {"a*", "c*"}, {}),
            std::pair(std::string("--include \"c*\" matches no safetensors file"), both));
  EXPECT_EQ(refused(dir.path(), {}, {"c*"}),
            std::pair(std::string("--exclude \"c*\" matches no safetensors file"), both));
  EXPECT_EQ(refused(dir.path(), {"a*"}, {"a*"}),
            std::pair(std::string("all safetensors files are left out"), both));
  FileGlobs globs;
  globs.leave = {"b*"};
  EXPECT_EQ(opened_files(dir.path(), globs), FileNames{"a.safetensors"});
  globs.take = {"*"};
  EXPECT_EQ(opened_files(dir.path(), globs), FileNames{"a.safetensors"});
  const TempDir empty;
  write_text(empty / "config.json", "{}");
  EXPECT_EQ(refused(empty.path(), {"c*"}, {}).second, "the source lacks such files");
}

TEST(OpenHfDirectory, SeveralFilesWithOtherNamesMustBeSelected) {
  const TempDir dir;
  for (const char* name : {"a", "b"})
    write_tensor(dir / (std::string(name) + ".safetensors"), name);
  const Error error = catch_error([&] { opened_files(dir.path()); });
  EXPECT_EQ(error.sentence(),
            "several safetensors files without an index, and none named model*: "
            "\"a.safetensors\", \"b.safetensors\"");
  EXPECT_EQ(error.hint_text(), "pass --include 'NAME*.safetensors' to select files");
}

TEST(OpenHfDirectory, WithoutWeightsTheHintFitsTheFilesThatAreThere) {
  const auto hint = [](const FileNames& names) {
    const TempDir dir;
    for (const std::string& name : names) write_text(dir / name, "{}");
    return catch_error([&] { opened_files(dir.path()); }).hint_text();
  };
  const std::string save =
      "save the model as safetensors first, for example with "
      "save_pretrained(safe_serialization=True)";
  EXPECT_EQ(hint({"a.gguf", "a.h5"}), save);
  EXPECT_EQ(hint({"a.h5"}), save);
  EXPECT_EQ(hint({"a.gguf", "b.gguf"}),
            "convert the model's own safetensors instead, since most GGUF files hold rounded "
            "values: hfshard convert ORG/NAME OUT");
  EXPECT_EQ(hint({"refs/main", "snapshots/0/config.json"}),
            "this is a folder of the Hub's cache; pass one of its snapshots/<revision> folders");
  EXPECT_EQ(hint({"other.index.json"}), "the only index read is model.safetensors.index.json");
}

TEST(OpenHfDirectory, AFileOfTheIndexThatIsNoFileSaysWhy) {
  const TempDir dir;
  write_text(dir / "model.safetensors.index.json", index_json({{"a", "a.safetensors"}}));
  std::filesystem::create_directory(dir / "a.safetensors");
  const Error directory = catch_error([&] { opened_files(dir.path()); });
  EXPECT_EQ(directory.code(), ErrorCode::bad_input);
  EXPECT_EQ(directory.sentence(), "a directory has the name of a file");
  EXPECT_EQ(directory.hint_text(), "move it away and download the file again");
  std::filesystem::remove(dir / "a.safetensors");
  std::filesystem::create_symlink("nowhere", dir / "a.safetensors");
  const Error link = catch_error([&] { opened_files(dir.path()); });
  EXPECT_EQ(link.code(), ErrorCode::not_found);
  EXPECT_EQ(link.sentence(), "a file that the index lists is missing");
  EXPECT_EQ(link.hint_text(),
            "it is a link to \"nowhere\", which doesn't exist; download the file again");
}

TEST(ReadHfIndex, OnlyABadIndexHasTheHintToIgnoreIt) {
  const TempDir dir;
  const StorePath index(dir / "model.safetensors.index.json");
  const auto refused = [&] {
    return catch_error([&] { read_hf_index(index, kSafetensorsFiles); });
  };
  EXPECT_EQ(refused().code(), ErrorCode::not_found);
  EXPECT_EQ(refused().hint_text(), "");
  write_text(index.name(), "[]");
  EXPECT_EQ(refused().code(), ErrorCode::bad_input);
  EXPECT_EQ(refused().hint_text(),
            "pass --ignore-index to read the files by their names, without the index");
}

TEST(OpenHfDirectory, AnIndexOfOtherKindsOfFilesCanBeIgnored) {
  const TempDir dir;
  write_tensor(dir / "model-1-of-1.safetensors");
  write_text(dir / "model.safetensors.index.json", index_json({{"a", "pytorch_model.bin"}}));
  const Error error = catch_error([&] { opened_files(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.hint_text(),
            "pass --ignore-index to read the files by their names, without the index");
}

TEST(OpenHfDirectory, TheWholeFileIsOneOfThoseThatAnIndexMayList) {
  const TempDir dir;
  write_tensor(dir / "model.safetensors", "a");
  write_tensor(dir / "more.safetensors", "b");
  const std::string index = dir / "model.safetensors.index.json";
  write_text(index, index_json({{"a", "model.safetensors"}, {"b", "more.safetensors"}}));
  EXPECT_EQ(opened_files(dir.path()), (FileNames{"model.safetensors", "more.safetensors"}));
  // An index that isn't read has no metadata to tell of.
  write_text(index, R"({"metadata":{"origin":1},"weight_map":{"b":"more.safetensors"}})");
  EXPECT_EQ(safetensors::open_hf_catalog(dir.path()).notes,
            (FileNames{"ignored (not named model*.safetensors): \"more.safetensors\"",
                       "ignored (transformers reads \"model.safetensors\" first): "
                       "\"model.safetensors.index.json\""}));
}

TEST(OpenHfFile, ASafetensorsFileIsKnownByItsBeginningUnderAnyName) {
  const TempDir dir;
  const auto sentence = [&](const std::string& bytes) {
    write_text(dir / "weights", bytes);
    return catch_error([&] { safetensors::open_hf_catalog(dir / "weights"); }).sentence();
  };
  const std::string length("\1\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(sentence(length + "{"), "this is a safetensors file with another name");
  for (const std::string& other : {length, length + "[", "\2" + length.substr(1) + "{"})
    EXPECT_EQ(sentence(other), "the file is neither a *.safetensors file nor one of torch.save");
}

TEST(OpenHfDirectory, UnreadableTensorsMayBeInFilesInAnyOrder) {
  const TempDir dir;
  const auto write = [&](const std::string& tensor, const std::string& file) {
    SafetensorsBuilder()
        .tensor(tensor, DType::bf16, {2})
        .lie_about(tensor, "dtype", "\"X9\"")
        .write(dir / file);
  };
  write("z", "1.safetensors");
  write("a", "2.safetensors");
  write_tensor(dir / "3.safetensors", "m");
  write_text(dir / "model.safetensors.index.json",
             index_json({{"a", "2.safetensors"}, {"m", "3.safetensors"}, {"z", "1.safetensors"}}));
  Choice choice;
  choice.without = {"a", "z"};
  const Catalog catalog = safetensors::open_hf_catalog(dir.path(), choice);
  EXPECT_EQ(catalog.tensors.size(), 1U);
  EXPECT_EQ(catalog.unreadable.size(), 2U);
}

TEST(OpenHfDirectory, AFileOfTheIndexThatCannotBeLookedUpSaysWhy) {
  const TempDir dir;
  std::filesystem::create_symlink("a.safetensors", dir / "a.safetensors");
  write_text(dir / "model.safetensors.index.json", index_json({{"a", "a.safetensors"}}));
  const Error error = catch_error([&] { safetensors::open_hf_catalog(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.sentence(), "can't look up: Too many levels of symbolic links");
  EXPECT_EQ(error.file(), dir / "a.safetensors");
}

TEST(OpenHfDirectory, AFailedReadIsNotALostFile) {
  const TempDir dir;
  for (const char* name : {"a", "b"})
    write_tensor(dir / (std::string(name) + ".safetensors"), name);
  Choice choice;
  choice.despite_loss = true;
  expect_failed_reads_are_told([&] { safetensors::open_hf_catalog(dir.path(), choice); });
  write_text(dir / "a.safetensors", "damaged");
  EXPECT_EQ(safetensors::open_hf_catalog(dir.path(), choice).lost.size(), 1U);
}

TEST(OpenHfDirectory, AModelHasNeitherStepsNorItems) {
  const TempDir dir;
  write_tensor(dir / "model.safetensors");
  for (const Choice& choice : {Choice{1, ""}, Choice{{}, "items"}}) {
    EXPECT_EQ(
        catch_error([&] { safetensors::safetensors_format().open_one(dir.path(), choice); }).code(),
        ErrorCode::usage);
  }
}

// `model-09` is followed by `model-10`, which has no leading zero.
TEST(OpenHfDirectory, NumbersArePaddedAsTheWidestIs) {
  const TempDir dir;
  const auto part = [](int number) {
    return (number < 10 ? "model-0" : "model-") + std::to_string(number) + "-of-11.safetensors";
  };
  for (int i = 1; i <= 11; ++i) write_tensor(dir / part(i), part(i));
  EXPECT_EQ(opened_files(dir.path()).size(), 11U);
}

TEST(OpenHfDirectory, OnlyPartsOfTheSameSeriesAreSaidToBeLeftOut) {
  const TempDir dir;
  for (const char* name : {"a-1-of-1", "a-1-of-2", "a-2-of-2", "b-1-of-1"})
    write_tensor(dir / (std::string(name) + ".safetensors"), name);
  const auto notes = [&](const std::string& glob) {
    Choice choice;
    choice.files.take = {glob};
    return safetensors::open_hf_catalog(dir.path(), choice).notes;
  };
  EXPECT_EQ(notes("a-1-of-1.safetensors"), FileNames());
  EXPECT_EQ(notes("b-1-of-1.safetensors"), FileNames());
  EXPECT_EQ(notes("a-1-of-2.safetensors"),
            FileNames{"left out by your globs, with the same parts: \"a-2-of-2.safetensors\""});
}

TEST(OpenHfDirectory, OneNoteNamesTheMetadataOfAllFiles) {
  const TempDir dir;
  for (const std::string part : {"1", "2"}) {
    SafetensorsBuilder builder;
    builder.tensor("t" + part, DType::bf16, {2}).metadata("recipe", part).metadata("format", "pt");
    builder.write(dir / ("model-" + part + "-of-2.safetensors"));
  }
  EXPECT_EQ(safetensors::open_hf_catalog(dir.path()).notes,
            FileNames{"neither read nor copied: \"recipe\" in the metadata of the files"});
}

TEST(OpenHfDirectory, ANoteNamesThePyTorchFilesOfTheModelOnly) {
  const TempDir dir;
  write_tensor(dir / "model.safetensors");
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "other.bin"})
    write_text(dir / name, "{}");
  const FileNames notes = safetensors::open_hf_catalog(dir.path()).notes;
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes[0], "hfshard read the safetensors files instead of \"pytorch_model.bin\"");
  Choice choice;
  choice.files.take = {"model.safetensors"};
  EXPECT_EQ(safetensors::open_hf_catalog(dir.path(), choice).notes, FileNames());
}

TEST(OpenHfNames, WeightsAnywhereMeanThatTheModelItselfIsOpened) {
  const TempDir dir;
  write_text(dir / "config.json", "{}");
  const std::string index = dir / "model.safetensors.index.json";
  write_text(index, index_json({{"a", "parts/1.safetensors"}}));
  EXPECT_TRUE(open_hf_names(dir.path(), kSafetensorsFiles));
  write_tensor(dir / "parts/1.safetensors");
  EXPECT_FALSE(open_hf_names(dir.path(), kSafetensorsFiles)) << "in a folder";
  write_text(index, index_json({{"a", "2.safetensors"}}));
  EXPECT_TRUE(open_hf_names(dir.path(), kSafetensorsFiles));
  write_tensor(dir / "3.safetensors");
  EXPECT_FALSE(open_hf_names(dir.path(), kSafetensorsFiles)) << "the index is stale";
}

TEST(ReadHfIndex, ABadIndexSaysWhichFileItNames) {
  const TempDir dir;
  const auto said = [&](const std::string& file) {
    write_text(dir / "model.safetensors.index.json", index_json({{"a", file}}));
    return catch_error([&] { opened_files(dir.path()); }).sentence();
  };
  EXPECT_EQ(said("../x.safetensors"),
            "the index names a file outside its directory: \"../x.safetensors\"");
  EXPECT_EQ(said("x.bin"), "the index names \"x.bin\", which isn't a safetensors file");
  write_text(dir / "model.safetensors.index.json", R"({"weight_map":{}})");
  EXPECT_EQ(catch_error([&] { opened_files(dir.path()); }).sentence(),
            "the index doesn't list any tensors");
}

TEST(OpenHfFile, GlobsNeedADirectory) {
  const TempDir dir;
  write_tensor(dir / "a.safetensors");
  Choice choice;
  choice.files.leave = {"b*"};
  const Error error =
      catch_error([&] { safetensors::open_hf_catalog(dir / "a.safetensors", choice); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "the source is one file, so globs of files don't apply");
  EXPECT_EQ(error.file(), dir / "a.safetensors");
  EXPECT_EQ(error.hint_text(),
            "--include and --exclude select files only if the source is a directory");
}

TEST(OpenHfFile, AFileWithAnotherNameSaysWhatToPass) {
  const TempDir dir;
  const auto hint = [&](const std::string& name) {
    write_text(dir / name, "text");
    return catch_error([&] { safetensors::open_hf_catalog(dir / name); }).hint_text();
  };
  EXPECT_EQ(hint("weights"), "pass the directory of a checkpoint, or a weight file");
  for (const char* of_checkpoint : {"config.json", "_METADATA", "manifest.ocdbt", ".metadata"}) {
    write_text(dir / ("sub/" + std::string(of_checkpoint)), "{}");
    EXPECT_EQ(hint("sub/weights"), "pass the directory " + (dir / "sub") + ", or a weight file")
        << of_checkpoint;
    std::filesystem::remove(dir / ("sub/" + std::string(of_checkpoint)));
  }
  write_text(dir / "weights", std::string("\1\0\0\0\0\0\0\0{", 9));
  const Error renamed = catch_error([&] { safetensors::open_hf_catalog(dir / "weights"); });
  EXPECT_EQ(renamed.hint_text(), "rename it to end in .safetensors");
}

TEST(OpenHfDirectory, TheRemainsOfADamagedModelAreSortedAndTheLostAreNamed) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("b", DType::bf16, {2})
      .tensor("a", DType::bf16, {2})
      .metadata("recipe", "x")
      .write(dir / "1.safetensors");
  write_text(dir / "2.safetensors", "damaged");
  write_text(dir / "notes.dat", "x");
  Choice choice;
  choice.despite_loss = true;
  const Catalog catalog = safetensors::open_hf_catalog(dir.path(), choice);
  EXPECT_EQ(catalog.location, dir.path());
  EXPECT_EQ(catalog.directory.name(), dir.path());
  ASSERT_EQ(catalog.tensors.size(), 2U);
  EXPECT_EQ(catalog.tensors[0].name, "a");
  ASSERT_EQ(catalog.lost.size(), 1U);
  EXPECT_EQ(catalog.lost[0].file(), dir / "2.safetensors");
  EXPECT_EQ(catalog.wording.kind, "huggingface");
}

TEST(OpenHfDirectory, NotesComeInTheOrderOfTheirReasons) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::bf16, {2})
      .metadata("recipe", "x")
      .write(dir / "model.safetensors");
  write_tensor(dir / "model.fp16.safetensors");
  write_tensor(dir / "other.safetensors");
  for (const char* name : {"notes.dat", "pytorch_model.bin"}) write_text(dir / name, "x");
  EXPECT_EQ(safetensors::open_hf_catalog(dir.path()).notes,
            (FileNames{"ignored (variants; pass --include FILE to select one): "
                       "\"model.fp16.safetensors\"",
                       "ignored (not named model*.safetensors): \"other.safetensors\"",
                       "neither read nor copied: \"recipe\" in the metadata of the files",
                       "hfshard read the safetensors files instead of \"pytorch_model.bin\"",
                       "neither read nor copied: \"notes.dat\""}));
}

}  // namespace
}  // namespace hfshard::format
