#include "format/hf_repo.h"

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "support/temp_dir.h"

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

}  // namespace
}  // namespace hfshard::format
