#include "format/torch/open.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "format/torch/assembled.h"
#include "format/weight_files.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "support/torch_file_builder.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Names = std::vector<std::string>;

void write_tensors(const std::string& path, const Names& names) {
  TorchFileBuilder builder;
  for (const std::string& name : names) builder.tensor(name, DType::u8, {3}, "abc");
  builder.write(path);
}

Names files_of(const Catalog& catalog) {
  Names out;
  for (const CatalogFile& file : catalog.files) out.push_back(file.name);
  return out;
}

TEST(OpenTorch, OneFileOrItsPartsMakeTheModel) {
  const TempDir dir;
  write_text(dir / "one/config.json", "{}");
  write_text(dir / "one/tokenizer.json", "{}");
  write_tensors(dir / "one/pytorch_model.bin", {"b", "a"});
  write_tensors(dir / "one/training_args.bin", {"x"});
  const Catalog one = open_torch(dir / "one")->catalog();
  EXPECT_EQ(files_of(one), (Names{"pytorch_model.bin"}));
  EXPECT_EQ(one.tensors.size(), 2U);
  EXPECT_EQ(one.tensors[0].name, "a");
  EXPECT_EQ(one.config_text, "{}");
  EXPECT_EQ(one.side_files, (Names{"config.json", "tokenizer.json"}));
  EXPECT_EQ(one.notes, Names{"neither read nor copied: \"training_args.bin\""});

  const Names parts{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};
  write_tensors(dir / ("parts/" + parts[0]), {"a", "c"});
  write_tensors(dir / ("parts/" + parts[1]), {"b"});
  EXPECT_EQ(files_of(open_torch(dir / "parts")->catalog()), parts);
  write_text(dir / "parts/pytorch_model.bin.index.json",
             index_json({{"a", parts[0]}, {"b", parts[1]}, {"c", parts[0]}}));
  EXPECT_EQ(open_torch(dir / "parts")->catalog().tensors.size(), 3U);
  write_text(dir / "parts/pytorch_model.bin.index.json",
             index_json({{"a", parts[0]}, {"b", parts[0]}, {"c", parts[0]}}));
  const Error error = catch_error([&] { (void)open_torch(dir / "parts"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "b");
}

TEST(OpenTorch, OneNoteNamesWhatIsLeftBehind) {
  const TempDir dir;
  write_tensors(dir / "pytorch_model.bin", {"a"});
  write_tensors(dir / "training_args.bin", {"x"});
  for (int i = 100; i < 302; ++i) write_text(dir / (std::to_string(i) + ".dat"), "x");
  const Names notes = open_torch(dir.path())->catalog().notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].ends_with("\"299.dat\" and 3 more")) << notes[0];
}

TEST(OpenTorch, APartThatIsMissingIsNamed) {
  const TempDir dir;
  write_tensors(dir / "pytorch_model-00001-of-00002.bin", {"a"});
  const Error error = catch_error([&] { (void)open_torch(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "pytorch_model-00002-of-00002.bin");
}

TEST(OpenTorch, OneRanksFileIsTheModelOnlyIfItIsTheOnlyOne) {
  const TempDir dir;
  const std::string first = dir / "consolidated.00.pth";
  write_tensors(first, {"a"});
  EXPECT_EQ(open_torch(first)->catalog().tensors.size(), 1U);
  write_tensors(dir / "consolidated.01.pth", {"a"});
  const Error error = catch_error([&] { (void)open_torch(first); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.file(), first);
}

TEST(OpenTorch, SafetensorsComeFirst) {
  const TempDir dir;
  write_tensors(dir / "pytorch_model.bin", {"a"});
  EXPECT_EQ(recognise(dir.path()).value().format->name(), "torch");
  EXPECT_TRUE(takes_root(dir.path())) << "its dicts can be nested";
  SafetensorsBuilder().tensor("b", DType::u8, {3}).write(dir / "model.safetensors");
  EXPECT_EQ(recognise(dir.path()).value().format->name(), "safetensors");
  EXPECT_FALSE(takes_root(dir.path()));
  EXPECT_EQ(open_catalog(dir.path()).tensors[0].name, "b");
}

TEST(OpenTorch, TensorsThatAreNoRunOfBytesArePutTogetherWhenTheyAreRead) {
  const TempDir dir;
  TorchFileBuilder builder;
  const std::size_t shared = builder.storage("abcdefghijkl");
  builder.view("m", DType::u8, {3, 4}, {4, 1}, 0, shared)
      .view("columns", DType::u8, {3, 2}, {4, 1}, 1, shared)
      .view("turned", DType::u8, {4, 3}, {1, 4}, 0, shared);
  builder.write(dir / "pytorch_model.bin");
  const Catalog catalog = open_torch(dir.path())->catalog();
  ASSERT_EQ(catalog.files.size(), 2U);
  EXPECT_EQ(catalog.files[1].size_bytes, 18U);
  const auto source = catalog.files[1].path.open();
  EXPECT_EQ(source->identity(), catalog.files[1].identity());
  EXPECT_EQ(catalog.files[1].inodes.size(), 1U) << "the file's, to tell a new ctime from new bytes";
  EXPECT_EQ(catalog.files[1].path.find().value().identity, catalog.files[1].identity());
  EXPECT_FALSE(catalog.files[1].path.local_path());
  const auto bytes_of = [&](const char* name) {
    const TensorInfo& info = catalog.tensors[catalog.find(name).value()];
    std::string out(info.size_bytes, '\0');
    catalog.files[info.file].path.open()->read_at(info.begin_bytes,
                                                  std::as_writable_bytes(std::span(out)));
    return out;
  };
  EXPECT_EQ(bytes_of("m"), "abcdefghijkl");
  EXPECT_EQ(bytes_of("columns"), "bcfgjk");
  EXPECT_EQ(bytes_of("turned"), "aeibfjcgkdhl");
  // Any range of them, also across the border between tensors.
  const std::string all = bytes_of("columns") + bytes_of("turned");
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      std::string out(end - begin, '\0');
      source->read_at(begin, std::as_writable_bytes(std::span(out)));
      EXPECT_EQ(out, all.substr(begin, end - begin));
    }
  }
  EXPECT_EQ(catch_error([&] {
              std::string out(2, '\0');
              source->read_at(17, std::as_writable_bytes(std::span(out)));
            }).code(),
            ErrorCode::corrupt);
}

TEST(OpenTorch, ElementsAreComparedWithTheirCrcAtTheirEnd) {
  const TempDir dir;
  const std::string path = dir / "pytorch_model.bin";
  TorchFileBuilder builder;
  builder.tensor("w", DType::u8, {8}, "abcdefgh").write(path);
  std::string out(8, '?');
  const auto read = [&](std::size_t first, std::size_t skipped) {
    const auto opened = open_torch(dir.path());
    const auto reader = opened->open_piece(0, {0}, PieceSteps::any, {});
    const auto to = std::as_writable_bytes(std::span(out));
    reader->read(to.first(first));
    reader->skip(skipped);
    reader->read(to.subspan(first + skipped));
  };
  read(3, 0);
  EXPECT_EQ(out, "abcdefgh");
  std::string bytes = builder.bytes();
  bytes[bytes.find("abcdefgh")] = 'A';
  write_text(path, bytes);
  read(3, 1);  // without all elements, nothing is compared
  const Error error = catch_error([&] { read(3, 0); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), path);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_EQ(error.range().value().end - error.range().value().begin, 8U);
}

// The CRC in the file is that of all four bytes.
TEST(OpenTorch, APartOfAStorageIsNotComparedWithItsCrc) {
  const TempDir dir;
  TorchFileBuilder builder;
  const std::size_t shared = builder.storage("abcdef");
  builder.view("w", DType::u8, {2}, {1}, 1, shared).write(dir / "pytorch_model.bin");
  const auto opened = open_torch(dir.path());
  std::string out(2, '?');
  opened->open_piece(0, {0}, PieceSteps::any, {})->read(std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "bc");
}

// The index chooses the copy that is read, also if one of them isn't a run of bytes.
TEST(OpenTorch, TheIndexTakesOneOfTwoCopies) {
  const TempDir dir;
  const Names parts{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};
  TorchFileBuilder turned;
  turned.view("w", DType::u8, {2, 2}, {1, 2}, 0, turned.storage("abcd"));
  turned.tensor("u", DType::u8, {1}, "x").write(dir / parts[0]);
  TorchFileBuilder plain;
  plain.tensor("w", DType::u8, {2, 2}, "efgh").tensor("v", DType::u8, {1}, "x");
  plain.write(dir / parts[1]);
  const auto elements = [&](const std::string& file) {
    write_text(dir / "pytorch_model.bin.index.json",
               index_json({{"u", parts[0]}, {"v", parts[1]}, {"w", file}}));
    const auto opened = open_torch(dir.path());
    std::string out(4, '?');
    opened->open_piece(2, {0, 0}, PieceSteps::any, {})
        ->read(std::as_writable_bytes(std::span(out)));
    return out;
  };
  EXPECT_EQ(elements(parts[0]), "acbd");
  EXPECT_EQ(elements(parts[1]), "efgh");
}

// Trainers keep other files next to the files of ranks. DeepSpeed's ranks have parts of a model.
TEST(OpenTorch, AWholeModelIsReadNextToTheFilesOfRanks) {
  const TempDir dir;
  write_tensors(dir / "pytorch_model.bin", {"a"});
  write_text(dir / "zero_pp_rank_0_mp_rank_00_optim_states.pt", "x");
  write_tensors(dir / "consolidated.00.pth", {"b"});
  EXPECT_EQ(files_of(open_torch(dir.path())->catalog()), Names{"pytorch_model.bin"});
  std::filesystem::remove(dir / "pytorch_model.bin");
  EXPECT_EQ(catch_error([&] { (void)open_torch(dir.path()); }).code(), ErrorCode::unsupported);
}

TEST(OpenTorch, TheIndexIsNotSaidToBeLeftBehind) {
  const TempDir dir;
  write_tensors(dir / "pytorch_model-00001-of-00001.bin", {"a"});
  write_text(dir / "pytorch_model.bin.index.json",
             index_json({{"a", "pytorch_model-00001-of-00001.bin"}}));
  EXPECT_EQ(open_torch(dir.path())->catalog().notes, Names());
}

TEST(OpenTorch, TensorsOfSeveralFilesArePutTogetherFromTheirOwn) {
  const TempDir dir;
  const Names parts{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};
  for (const std::string name : {"v", "w"}) {
    TorchFileBuilder turned;
    turned.view(name, DType::u8, {2, 2}, {1, 2}, 0, turned.storage(name == "v" ? "abcd" : "efgh"));
    turned.write(dir / parts[name == "v" ? 0 : 1]);
  }
  const Catalog catalog = open_torch(dir.path())->catalog();
  ASSERT_EQ(catalog.files.size(), 3U);
  std::string all(8, '?');
  catalog.files[2].path.open()->read_at(0, std::as_writable_bytes(std::span(all)));
  EXPECT_EQ(all, "acbdegfh");
}

// A view can repeat one element any number of times.
TEST(OpenTorch, TensorsOfMoreBytesThanAFileCanHaveAreRefused) {
  const TempDir dir;
  const std::string path = dir / "pytorch_model.bin";
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  TorchFileBuilder one;
  one.view("w", DType::f32, {kHalf / 2}, {0}, 0, one.storage("abcd")).write(path);
  const Error large = catch_error([&] { (void)open_torch(path); });
  EXPECT_EQ(large.code(), ErrorCode::limit);
  EXPECT_EQ(large.sentence(), "a tensor of more than 2^64 bytes");
  EXPECT_EQ(large.tensor(), "w");
  TorchFileBuilder two;
  const std::size_t shared = two.storage("a");
  for (const char* name : {"v", "w"}) two.view(name, DType::u8, {kHalf / 2, 2}, {0, 0}, 0, shared);
  two.write(path);
  const Error both = catch_error([&] { (void)open_torch(path); });
  EXPECT_EQ(both.code(), ErrorCode::limit);
  EXPECT_EQ(both.sentence(), "tensors of more than 2^64 bytes");
  EXPECT_EQ(both.tensor(), "w");
  Assembly assembly;
  EXPECT_EQ(catch_error([&] { assembly.add({"w", {kHalf}, 4, 0, {}}); }).code(), ErrorCode::limit);
}

TEST(OpenTorch, NamedFilesAreReadAloneAndWithoutANoteOnTheOthers) {
  const TempDir dir;
  for (const char* name : {"consolidated.00.pth", "consolidated.01.pth"})
    write_tensors(dir / name, {"a"});
  Choice choice;
  choice.files.take = {"consolidated.01.pth"};
  const Catalog catalog = open_torch(dir.path(), choice)->catalog();
  EXPECT_EQ(files_of(catalog), Names{"consolidated.01.pth"});
  EXPECT_EQ(catalog.notes, Names());
  const TempDir odd;
  write_tensors(odd / "odd.bin", {"a"});
  choice.files.take = {"odd.bin"};
  EXPECT_EQ(files_of(open_torch(odd.path(), choice)->catalog()), Names{"odd.bin"});
}

TEST(OpenTorch, AFileThatChangesIsSeenByWhatIsPutTogether) {
  const TempDir dir;
  TorchFileBuilder builder;
  builder.view("t", DType::u8, {4, 3}, {1, 4}, 0, builder.storage("abcdefghijkl"));
  builder.write(dir / "pytorch_model.bin");
  const Catalog catalog = open_torch(dir.path())->catalog();
  const auto source = catalog.files[1].path.open();
  write_text(dir / "pytorch_model.bin", builder.bytes() + "x");
  EXPECT_EQ(catch_error([&] { source->check_unchanged(); }).code(), ErrorCode::conflict);
  EXPECT_NE(catalog.files[1].path.open()->identity(), catalog.files[1].identity());
  EXPECT_NE(catalog.files[1].path.find().value().identity, catalog.files[1].identity());
  std::filesystem::remove(dir / "pytorch_model.bin");
  EXPECT_FALSE(catalog.files[1].path.find());
}

// A new link explains the ctime but not the mtime.
TEST(OpenTorch, AnEditInPlaceAndANewLinkAreSeenByWhatIsPutTogether) {
  const TempDir dir;
  const std::string path = dir / "pytorch_model.bin";
  TorchFileBuilder builder;
  builder.view("t", DType::u8, {4, 3}, {1, 4}, 0, builder.storage("abcdefghijkl"));
  builder.write(path);
  const CatalogFile file = open_torch(dir.path())->catalog().files[1];
  std::filesystem::create_hard_link(path, dir / "link");
  EXPECT_EQ(file.path.find().value().identity, file.identity());
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) + std::chrono::hours(1));
  EXPECT_NE(file.path.open()->identity(), file.identity());
  EXPECT_NE(file.path.find().value().identity, file.identity());
}

TEST(OpenTorch, NotesNameTheKeyOfTheModelAndWhatIsLeftOut) {
  const TempDir dir;
  const std::string path = dir / "pytorch_model.bin";
  TorchFileBuilder plain;
  plain.tensor("a", DType::u8, {3}, "abc").other("epoch").write(path);
  EXPECT_EQ(open_torch(dir.path())->catalog().notes,
            Names{"left out of \"pytorch_model.bin\", since they aren't tensors, or dicts of them, "
                  "with text as keys: \"epoch\""});
  TorchFileBuilder below = plain;
  below.below("model").write(path);
  const std::string left_out =
      "left out of \"pytorch_model.bin\", since they aren't below \"model\", or aren't tensors: "
      "\"model.epoch\"";
  EXPECT_EQ(open_torch(dir.path())->catalog().notes,
            (Names{"the tensors of \"pytorch_model.bin\" are below the key \"model\"",
                   left_out + "; --root KEY takes what is below another key"}));
  Choice choice;
  choice.root = "model";
  EXPECT_EQ(open_torch(dir.path(), choice)->catalog().notes, Names{left_out});
  write_tensors(path, {"a"});
  EXPECT_EQ(open_torch(dir.path())->catalog().notes, Names());
}

TEST(OpenTorch, AFileOfAnyNameIsTheModelIfNoOtherFileTellsMore) {
  for (const std::string name : {"weights.pt", "weights.pth"}) {
    const TempDir dir;
    write_tensors(dir / "optimizer.pt", {"x"});
    EXPECT_FALSE(has_torch_model(StorePath(dir.path())));
    write_tensors(dir / name, {"a", "b"});
    EXPECT_TRUE(has_torch_model(StorePath(dir.path())));
    EXPECT_EQ(files_of(open_torch(dir.path())->catalog()), Names{name});
    write_text(dir / ".metadata", "");
    EXPECT_FALSE(has_torch_model(StorePath(dir.path()))) << "files next to a DCP checkpoint";
    std::filesystem::rename(dir / ".metadata", dir / "__0_0.distcp");
    EXPECT_FALSE(has_torch_model(StorePath(dir.path()))) << "next to an unfinished one";
    for (const char* rank : {"consolidated.00.pth", "model_world_size_2_rank_0.pt"}) {
      write_text(dir / rank, "");
      EXPECT_TRUE(has_torch_model(StorePath(dir.path()))) << rank;
      std::filesystem::remove(dir / rank);
    }
    write_text(dir / "pytorch_model.bin.index.json", "");
    EXPECT_TRUE(has_torch_model(StorePath(dir.path()))) << "only the index is there";
  }
}

TEST(OpenTorch, AFileIsKnownByItsBeginningAndName) {
  const TempDir dir;
  const auto is_model = [&](const std::string& name, const std::string& bytes) {
    write_text(dir / name, bytes);
    return has_torch_model(StorePath(dir / name));
  };
  const std::string archive = TorchFileBuilder().tensor("a", DType::u8, {3}, "abc").bytes();
  const std::string other = torch_records({{"x", "y"}});
  for (const char* name : {"a.bin", "a.pt", "a.pth", "a.ckpt"}) {
    EXPECT_TRUE(is_model(name, archive)) << name;
    EXPECT_TRUE(is_model(name, other)) << name;
    EXPECT_FALSE(is_model(name, "text")) << name;
  }
  EXPECT_TRUE(is_model("a.model", archive));
  EXPECT_FALSE(is_model("a.model", other)) << "some zip archive";
  EXPECT_FALSE(is_model("a.model", archive.substr(0, 20)));
  EXPECT_FALSE(is_model("a.safetensors", archive));
  EXPECT_FALSE(is_model("a.distcp", archive));
  EXPECT_FALSE(has_torch_model(StorePath(dir / "nothing")));
}

TEST(OpenTorch, AnAssembledFileIsNamedAfterThoseOfItsParts) {
  const TempDir dir;
  const Names parts{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};
  TorchFileBuilder turned;
  turned.view("w", DType::u8, {2, 2}, {1, 2}, 0, turned.storage("abcd"));
  turned.write(dir / ("one/" + std::string("pytorch_model.bin")));
  EXPECT_EQ(files_of(open_torch(dir / "one")->catalog()),
            (Names{"pytorch_model.bin", "pytorch_model.bin (strided tensors)"}));
  turned.write(dir / ("two/" + parts[0]));
  write_tensors(dir / ("two/" + parts[1]), {"v"});
  const Catalog two = open_torch(dir / "two")->catalog();
  EXPECT_EQ(files_of(two), (Names{parts[0], parts[1], dir / "two (strided tensors)"}));
  const auto source = two.files[2].path.open();
  EXPECT_EQ(source->name(), dir / "two (strided tensors)");
  const Error error = catch_error([&] {
    std::string out(2, '\0');
    source->read_at(3, std::as_writable_bytes(std::span(out)));
  });
  EXPECT_EQ(error.sentence(), "the tensors end before this range");
  EXPECT_EQ(error.file(), dir / "two (strided tensors)");
  EXPECT_EQ(error.range(), (ByteRange{3, 5}));
  EXPECT_EQ(error.total_bytes(), 4U);
}

TEST(OpenTorch, OneOfTheFilesOfRanksSaysHowToOpenAll) {
  const TempDir dir;
  for (const char* name : {"consolidated.00.pth", "consolidated.01.pth", "consolidated.02.pth"})
    write_tensors(dir / name, {"a"});
  const Error error = catch_error([&] { (void)open_torch(dir / "consolidated.01.pth"); });
  EXPECT_EQ(error.sentence(), "the file is one of 3 that have the parts of each tensor");
  EXPECT_EQ(error.hint_text(), "pass the directory, with --config DIR of the model");
  write_tensors(dir / "other.pth", {"a"});
  EXPECT_EQ(open_torch(dir / "other.pth")->catalog().tensors.size(), 1U);
}

TEST(TorchFormat, IsReadAndNotWritten) {
  const Format& format = format_of("torch");
  EXPECT_FALSE(format.writes());
  EXPECT_TRUE(format.plain());
  for (const std::function<void()>& write : std::vector<std::function<void()>>{
           [&] { (void)format.layout(); }, [&] { (void)format.form({}, {}, {}); },
           [&] { (void)format.encode({}, {}, {}, {}); }}) {
    const Error error = catch_error(write);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.sentence(), "hfshard reads files of torch.save but doesn't write them");
    EXPECT_EQ(error.hint_text(),
              "pass --to safetensors for a Hugging Face directory, or --to dcp for "
              "torch.distributed.checkpoint");
  }
}

// Trainers save other states with the same endings.
TEST(OpenTorch, FilesOfATrainerAreNotTheModel) {
  const TempDir dir;
  Names others{"dataloader.pt",  "extra_state.pt",   "optim_0.pt", "random_states_0.pt",
               "rng_state.pt",   "sampler.pt",       "scaler.pt",  "scheduler.pt",
               "train_state.pt", "training_args.pth"};
  for (const std::string& name : others) write_tensors(dir / name, {"x"});
  EXPECT_FALSE(has_torch_model(StorePath(dir.path())));
  write_tensors(dir / "weights.pt", {"a"});
  const Catalog catalog = open_torch(dir.path())->catalog();
  EXPECT_EQ(files_of(catalog), Names{"weights.pt"});
  ASSERT_EQ(catalog.notes.size(), 1U);
  for (const std::string& name : others)
    EXPECT_NE(catalog.notes[0].find("\"" + name + "\""), std::string::npos) << name;
}

TEST(OpenTorch, ATensorThatIsLeftOutIsNamed) {
  const TempDir dir;
  TorchFileBuilder builder;
  builder.tensor("a", DType::u8, {3}, "abc").tensor("odd", DType::u8, {1}, "x");
  std::string pickle = builder.pickle();
  builder.record("data.pkl", pickle.replace(pickle.rfind("ByteStorage"), 4, "Nyte"));
  builder.write(dir / "pytorch_model.bin");
  EXPECT_EQ(catch_error([&] { (void)open_torch(dir.path()); }).hint_text(),
            "if the model doesn't need the tensor, pass --exclude 'odd'");
  Choice choice;
  choice.without = {"odd"};
  const Catalog catalog = open_torch(dir.path(), choice)->catalog();
  EXPECT_EQ(catalog.tensors.size(), 1U);
  ASSERT_EQ(catalog.unreadable.size(), 1U);
  EXPECT_EQ(catalog.unreadable[0].name, "odd");
  EXPECT_EQ(catalog.unreadable[0].why,
            "a storage of \"torch.NyteStorage\", which hfshard can't read");
}

}  // namespace
}  // namespace hfshard::format::torch
