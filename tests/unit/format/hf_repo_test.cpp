#include "format/hf_repo.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "format/formats.h"
#include "format/hf_index.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include <sys/stat.h>

namespace hfshard::format {
namespace {

TEST(NoteLeftBehind, OfManyFilesTheFirstAreNamed) {
  const TempDir dir;
  std::vector<std::string> names;
  const auto add = [&](int number) {
    names.push_back(fmt::format("{}.dat", number));
    write_text(dir / names.back(), "x");
  };
  for (int i = 100; i < 300; ++i) add(i);
  const std::string all = fmt::format("neither read nor copied: \"{}\"", join(names, "\", \""));
  EXPECT_EQ(note_left_behind(dir.path(), names, {}, {}), all);
  add(300);
  add(301);
  EXPECT_EQ(note_left_behind(dir.path(), names, {}, {}), all + " and 2 more");
}

TEST(NoteLeftBehind, ADirectoryIsReadIfAFileInItIs) {
  const TempDir dir;
  for (const char* name : {"parts/m.safetensors", "part/notes"}) write_text(dir / name, "x");
  EXPECT_EQ(note_left_behind(dir.path(), {"part", "parts"}, {"parts/m.safetensors"}, {}),
            "neither read nor copied: \"part/\"");
}

TEST(NoteLeftBehind, NamesFilesThatNoNoteNamesAndSaysWhy) {
  const TempDir dir;
  for (const char* name : {"README.md", "a.dat", "below/a", "tokenizer.json"})
    write_text(dir / name, "x");
  std::filesystem::resize_file(dir / "tokenizer.json", (256U << 20) + 1);
  std::filesystem::create_symlink("nowhere", dir / "vocab.json");
  const std::vector<std::string> entries{"README.md", "a.dat", "below", "tokenizer.json",
                                         "vocab.json"};
  EXPECT_EQ(note_left_behind(dir.path(), entries, {}, {}),
            "neither read nor copied: \"a.dat\", \"below/\", \"tokenizer.json\" (larger than 256 "
            "MiB), \"vocab.json\" (a broken link)");
  EXPECT_EQ(note_left_behind(dir.path(), entries, {"tokenizer.json", "vocab.json"},
                             {"ignored: \"below/\"", "ignored: a.dat"}),
            "neither read nor copied: \"a.dat\"");
}

TEST(FindSideFiles, PointersAndHugeFilesAreNoSideFiles) {
  const TempDir dir;
  const std::vector<std::string> entries{"tokenizer.json"};
  const auto is_taken = [&](const std::string& begin, std::uint64_t size_bytes) {
    write_text(dir / entries[0], begin);
    std::filesystem::resize_file(dir / entries[0], size_bytes);
    return !find_side_files(dir.path(), entries).empty();
  };
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\n";
  EXPECT_TRUE(is_taken("{}", 2));
  EXPECT_FALSE(is_taken(pointer, pointer.size()));
  EXPECT_FALSE(is_taken(pointer, 1023));
  EXPECT_TRUE(is_taken(pointer, 1024)) << "larger than any pointer";
  EXPECT_TRUE(is_taken("{}", 256U << 20));
  EXPECT_FALSE(is_taken("{}", (256U << 20) + 1));
}

TEST(FindSideFiles, OnlyTemplatesOfTheirDirectoryAreTaken) {
  const TempDir dir;
  for (const char* name : {"tool.jinja", "notes.txt", "a.jinja.bak"})
    write_text(dir / (std::string("additional_chat_templates/") + name), "x");
  EXPECT_EQ(find_side_files(dir.path(), {"additional_chat_templates"}),
            std::vector<std::string>{"additional_chat_templates/tool.jinja"});
}

// The listing of a directory can be older than what is there.
TEST(FindSideFiles, AFileThatIsGoneIsNeitherCopiedNorNamed) {
  const TempDir dir;
  EXPECT_EQ(find_side_files(dir.path(), {"tokenizer.json"}), std::vector<std::string>());
  EXPECT_EQ(note_left_behind(dir.path(), {"other.dat", "tokenizer.json"}, {}, {}), "");
}

TEST(FindSideFiles, AFileWithTheNameOfTheTemplatesIsNotListed) {
  const TempDir dir;
  write_text(dir / "additional_chat_templates", "a file");
  EXPECT_EQ(find_side_files(dir.path(), {"additional_chat_templates"}), std::vector<std::string>());
}

void write_names(const TempDir& dir, const std::vector<std::string>& names) {
  for (const std::string& name : names) write_text(dir / name, "{}");
}

TEST(FindSideFiles, EveryFileOfAModelBesideItsWeightsIsTaken) {
  const TempDir dir;
  const std::vector<std::string> names{"added_tokens.json",
                                       "chat_template.json",
                                       "config.json",
                                       "generation_config.json",
                                       "hf_quant_config.json",
                                       "image_processor_config.json",
                                       "llama.tiktoken",
                                       "merges.txt",
                                       "modeling_own.py",
                                       "preprocessor_config.json",
                                       "processor_config.json",
                                       "quant_config.json",
                                       "quantize_config.json",
                                       "quanto_qmap.json",
                                       "special_tokens_map.json",
                                       "spiece.model",
                                       "tekken.json",
                                       "tokenizer_config.json",
                                       "tool_use.jinja",
                                       "video_preprocessor_config.json",
                                       "vocab.txt"};
  write_names(dir, names);
  EXPECT_EQ(find_side_files(dir.path(), names), names);
  for (const char* method :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json", "quanto_qmap.json"})
    EXPECT_TRUE(describes_codes(method)) << method;
  EXPECT_FALSE(describes_codes("config.json"));
  const std::vector<std::string> others{"merges.json",      "my_config.json", "quant_config.yaml",
                                        "tokenizer.gguf",   "vocab",          "x.model.index.json",
                                        "tokenizer.msgpack"};
  write_names(dir, others);
  EXPECT_EQ(find_side_files(dir.path(), others), std::vector<std::string>());
}

TEST(NoteLeftBehind, FilesForPeopleAndForHubsAreNotNamed) {
  const TempDir dir;
  const std::vector<std::string> names{
      ".gitattributes", "LICENSE.txt", "NOTICE",       "README",      "a.gif",
      "a.jpeg",         "a.jpg",       "a.md",         "a.pdf",       "a.png",
      "a.svg",          "a.webp",      "assets/x",     "config.json", "configuration.json",
      "docs/x",         "figures/x",   "hfshard.json", "images/x"};
  write_names(dir, names);
  std::vector<std::string> entries;
  for (const std::string& name : names) entries.push_back(name.substr(0, name.find('/')));
  EXPECT_EQ(note_left_behind(dir.path(), entries, {}, {}), "");
  write_names(dir, {"data/x", "a.txt", "hfshard", "other.json"});
  EXPECT_EQ(note_left_behind(dir.path(), {"a.txt", "data", "hfshard", "other.json"}, {}, {}),
            "neither read nor copied: \"a.txt\", \"data/\", \"hfshard\", \"other.json\"");
}

TEST(ChooseWithoutIndex, FilesOfOtherProgramsAreNamedWithWhatToDo) {
  const auto refused = [](const std::string& name) {
    const TempDir dir;
    write_names(dir, {name});
    const Error error =
        catch_error([&] { choose_without_index(dir.path(), {name}, kSafetensorsFiles); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
    EXPECT_EQ(error.file(), dir.path());
    std::string hint = error.hint_text();
    if (const std::size_t at = hint.find(dir.path()); at != std::string::npos)
      hint.replace(at, dir.path().size(), "DIR");
    return error.sentence() + " [" + hint + "]";
  };
  for (const std::string name :
       {"a.bin", "a.pth", "a.pt", "a.ckpt", "a.pth.tar", "a.pt.tar", "a.th"})
    EXPECT_EQ(refused(name), "no weights with the usual names; found \"" + name + "\" [if \"" +
                                 name + "\" has the model, pass the file: DIR/" + name + "]");
  for (const std::string name : {"a.h5", "a.msgpack"})
    EXPECT_EQ(refused(name), "only safetensors and PyTorch weights can be read; found \"" + name +
                                 "\" [save the model as safetensors first, for example with "
                                 "save_pretrained(safe_serialization=True)]");
  for (const std::string name :
       {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"})
    EXPECT_EQ(refused(name),
              "this is an adapter, not a model: found \"" + name +
                  "\" [merge the adapter into its base model first (peft: merge_and_unload)]");
}

// Only a snapshot of the Hub's cache has its blobs two directories above.
TEST(ChooseWithoutIndex, BlobsAreThoseOfASnapshotOnly) {
  const TempDir dir;
  write_names(dir, {"blobs/0.incomplete", "snapshots/1/config.json", "models/1/config.json"});
  const auto refused = [&](const std::string& place) {
    return catch_error(
        [&] { choose_without_index(StorePath(dir / place), {"config.json"}, kSafetensorsFiles); });
  };
  const Error snapshot = refused("snapshots/1");
  EXPECT_EQ(snapshot.sentence(), "the download isn't complete: \"model.safetensors\" is missing");
  EXPECT_TRUE(snapshot.hint_text().starts_with("finish the download first; partial file: "));
  EXPECT_EQ(refused("models/1").sentence(), "no safetensors file in the directory");
}

TEST(ReadHfIndex, TheSameFileUnderTwoNamesIsOne) {
  const TempDir dir;
  const StorePath path(dir / "index.json");
  write_text(path.name(), index_json({{"c", "./m.safetensors"},
                                      {"b", "m.safetensors"},
                                      {"a", "././parts/m.safetensors"}}));
  const HfIndex index = read_hf_index(path);
  EXPECT_EQ(index.files, (std::vector<std::string>{"m.safetensors", "parts/m.safetensors"}));
  using Tensors = std::vector<std::pair<std::string, std::uint32_t>>;
  EXPECT_EQ(index.tensors, (Tensors{{"a", 1}, {"b", 0}, {"c", 0}}));
  write_text(path.name(),
             R"({"metadata":{"total_size":1,"origin":"x","total_parameters":2,"made":1},)"
             R"("weight_map":{"a":"m.safetensors"}})");
  EXPECT_EQ(read_hf_index(path).metadata, (std::vector<std::string>{"made", "origin"}));
}

TEST(OpenNames, AnIndexOfPyTorchFilesHasThemToo) {
  const TempDir dir;
  write_names(dir, {"config.json"});
  EXPECT_FALSE(open_names(dir.path()));
  write_text(dir / "pytorch_model.bin.index.json",
             index_json({{"b", "pytorch_model.bin"}, {"a", "pytorch_model.bin"}}));
  const auto names = open_names(dir.path());
  ASSERT_TRUE(names);
  EXPECT_EQ(names->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names->location, dir.path());
  write_names(dir, {"other.bin"});
  EXPECT_FALSE(open_names(dir.path()));
}

TEST(PartOfModel, AFileOfAnyKindIsAPart) {
  const TempDir dir;
  EXPECT_EQ(part_of_model(dir.path(), {}, "pytorch_model-00002-of-00003.bin"), "shard 2 of 3");
  EXPECT_EQ(part_of_model(dir.path(), {}, "model-00001-of-00003.safetensors"), "shard 1 of 3");
  EXPECT_EQ(part_of_model(dir.path(), {}, "model-00001-of-00001.safetensors"), "");
  const std::string index = "pytorch_model.bin.index.json";
  write_text(dir / index, index_json({{"a", "x.bin"}, {"b", "y.bin"}, {"c", "z.bin"}}));
  EXPECT_EQ(part_of_model(dir.path(), {index}, "y.bin"), "one of 3 files");
  EXPECT_EQ(part_of_model(dir.path(), {index}, "w.bin"), "");
}

TEST(FindSideFiles, TemplatesAreSortedAmongTheOthersAndNeverLeftBehind) {
  const TempDir dir;
  write_names(dir, {"additional_chat_templates/tool.jinja", "config.json"});
  EXPECT_EQ(find_side_files(dir.path(), {"additional_chat_templates", "config.json"}),
            (std::vector<std::string>{"additional_chat_templates/tool.jinja", "config.json"}));
  EXPECT_EQ(note_left_behind(dir.path(), {"additional_chat_templates"}, {}, {}), "");
}

TEST(NoteLeftBehind, ASideFileThatIsNoFileSaysSo) {
  const TempDir dir;
  write_names(dir, {"tokenizer_dir/x"});
  ASSERT_EQ(::mkfifo((dir / "tokenizer.json").c_str(), 0600), 0);
  EXPECT_EQ(find_side_files(dir.path(), {"tokenizer.json", "tokenizer_dir"}),
            std::vector<std::string>());
  EXPECT_EQ(note_left_behind(dir.path(), {"tokenizer.json", "tokenizer_dir"}, {}, {}),
            "neither read nor copied: \"tokenizer.json\" (no file), \"tokenizer_dir/\"");
}

}  // namespace
}  // namespace hfshard::format
