#include "format/torch/ranks.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/pickle_writer.h"
#include "format/torch/assembled.h"
#include "format/torch/open.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/torch_file_builder.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Entries = std::vector<std::string>;

TEST(FindRankFiles, AMissingFileIsNamedAsItsProgramNamesIt) {
  const auto missing = [](const Entries& entries) {
    const Error error = catch_error([&] { find_rank_files(StorePath("x"), entries); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    return error.file();
  };
  EXPECT_EQ(missing({"consolidated.01.pth"}), "x/consolidated.00.pth");
  EXPECT_EQ(missing({"consolidated.00.pth", "consolidated.02.pth"}), "x/consolidated.01.pth");
  EXPECT_EQ(missing({"model_world_size_2_rank_1.pt"}), "x/model_world_size_2_rank_0.pt");
}

TEST(FindRankFiles, NumbersAreThoseOfRanks) {
  const auto found = find_rank_files(StorePath("x"), {"consolidated.00.pth", "config.json"});
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->is_meta);
  EXPECT_EQ(found->names, Entries{"consolidated.00.pth"});
  EXPECT_FALSE(find_rank_files(StorePath("x"), {"consolidated.pth", "consolidated..pth"}));
  EXPECT_FALSE(find_rank_files(StorePath("x"), {"consolidated.65536.pth"})) << "no rank";
  EXPECT_EQ(
      catch_error([&] { find_rank_files(StorePath("x"), {"consolidated.65535.pth"}); }).code(),
      ErrorCode::not_found);
  EXPECT_FALSE(find_rank_files(StorePath("x"), {"model_world_size_65537_rank_0.pt"}));
  EXPECT_EQ(catch_error([&] {
              find_rank_files(StorePath("x"), {"model_world_size_65536_rank_0.pt"});
            }).file(),
            "x/model_world_size_65536_rank_1.pt");
  const Entries both{"model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"};
  EXPECT_EQ(find_rank_files(StorePath("x"), both).value().names, both);
  for (const char* other :
       {"model_world_size_1_rank_0.py", "model_world_size_1_rank_0xyz", "model_world_size_1.pt",
        "model_world_size_x_rank_0.pt", "model_world_size_1_rank_x.pt", "consolidated.00.bin",
        "consolidated.00.xyz"}) {
    EXPECT_FALSE(find_rank_files(StorePath("x"), {other})) << other;
    EXPECT_FALSE(is_rank_file(other)) << other;
  }
}

TEST(FindRankFiles, FilesOfTwoRunsAreRefused) {
  const Error error = catch_error([] {
    find_rank_files(StorePath("x"),
                    {"model_world_size_2_rank_0.pt", "model_world_size_4_rank_1.pt"});
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), "x/model_world_size_4_rank_1.pt");
}

class MetaRanks {
 public:
  TorchFileBuilder& rank(std::size_t number) { return ranks_[number]; }
  std::string file(std::size_t number) const { return dir_ / names_[number]; }
  Catalog open(const Entries& without = {}) const {
    for (std::size_t i = 0; i < names_.size(); ++i) ranks_[i].write(file(i));
    Choice choice;
    choice.without = without;
    return open_rank_files(StorePath(dir_.path()), names_, {names_, true}, choice);
  }

 private:
  TempDir dir_;
  Entries names_{"consolidated.00.pth", "consolidated.01.pth"};
  std::vector<TorchFileBuilder> ranks_{2};
};

TEST(OpenRankFiles, ATensorThatOneFileLacksIsNamedWithTheFileThatTells) {
  for (const std::size_t full : {0U, 1U}) {
    for (const char* name : {"alpha", "zeta"}) {
      MetaRanks set;
      for (const std::size_t i : {0U, 1U}) set.rank(i).tensor("norm.weight", DType::u8, {3}, "abc");
      set.rank(full).tensor(name, DType::u8, {3}, "abc");
      const Error error = catch_error([&] { (void)set.open(); });
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_EQ(error.tensor(), name);
      EXPECT_EQ(error.file(), set.file(1));
    }
  }
}

TEST(OpenRankFiles, TheWidthIsThatOfANormWithOneDim) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) {
    set.rank(i)
        .tensor("layers.0.attention_norm.weight", DType::u8, {2, 2}, "abcd")
        .tensor("norm.weight", DType::u8, {1}, "c")
        .tensor("tok_embeddings.weight", DType::u8, {3, 1}, i == 0 ? "abc" : "def");
  }
  EXPECT_EQ(set.open().tensors.at(2).shape, (Shape{6, 1}));
}

TEST(OpenRankFiles, ATensorOfOneFileThatIsNoRunOfBytesIsPutTogether) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) {
    TorchFileBuilder& rank = set.rank(i);
    rank.view("norm.weight", DType::u8, {2, 2}, {1, 2}, 0, rank.storage("abcd"));
  }
  const Catalog catalog = set.open();
  const TensorInfo& info = catalog.tensors.at(0);
  std::string turned(4, '?');
  catalog.files.at(info.file).path.open()->read_at(info.begin_bytes,
                                                   std::as_writable_bytes(std::span(turned)));
  EXPECT_EQ(turned, "acbd");
}

TEST(OpenRankFiles, PartsAreJoinedWhenTheyAreRead) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) {
    set.rank(i)
        .tensor("layers.0.attention.wo.weight", DType::u8, {2, 2}, i == 0 ? "abcd" : "efgh")
        .tensor("layers.0.attention.wq.weight", DType::u8, {0, 4}, "")
        .tensor("norm.weight", DType::u8, {4}, "same");
  }
  const Catalog catalog = set.open();
  ASSERT_EQ(catalog.tensors.size(), 3U);
  ASSERT_EQ(catalog.files.size(), 3U);
  EXPECT_EQ(catalog.tensors[0].shape, (Shape{2, 4}));
  EXPECT_EQ(catalog.tensors[0].file, 2U);
  EXPECT_EQ(catalog.tensors[1].shape, (Shape{0, 4}));
  EXPECT_EQ(catalog.tensors[1].size_bytes, 0U);
  EXPECT_EQ(catalog.tensors[2].file, 0U) << "it stays in the file";
  std::string joined(8, '?');
  catalog.files[2].path.open()->read_at(catalog.tensors[0].begin_bytes,
                                        std::as_writable_bytes(std::span(joined)));
  EXPECT_EQ(joined, "abefcdgh");
  for (std::size_t begin = 0; begin < joined.size(); ++begin) {
    for (std::size_t end = begin + 1; end <= joined.size(); ++end) {
      std::string part(end - begin, '?');
      catalog.files[2].path.open()->read_at(catalog.tensors[0].begin_bytes + begin,
                                            std::as_writable_bytes(std::span(part)));
      EXPECT_EQ(part, joined.substr(begin, end - begin));
    }
  }
}

TEST(OpenRankFiles, AChangeOfAnyFileIsNoticed) {
  for (const std::size_t changed : {0U, 1U}) {
    MetaRanks set;
    for (const std::size_t i : {0U, 1U})
      set.rank(i).tensor("output.weight", DType::u8, {1, 2}, "ab");
    const auto source = set.open().files.at(2).path.open();
    EXPECT_NO_THROW(source->check_unchanged());
    write_text(set.file(changed), "another");
    const Error error = catch_error([&] { source->check_unchanged(); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), set.file(changed));
  }
}

// Each file has the tensor that can't be read.
TEST(OpenRankFiles, ATensorThatIsLeftOutIsNamed) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) {
    set.rank(i).tensor("norm.weight", DType::u8, {3}, "abc").tensor("odd", DType::u8, {1}, "x");
    std::string pickle = set.rank(i).pickle();
    const std::size_t storage = pickle.rfind("ByteStorage");
    set.rank(i).record("data.pkl", pickle.replace(storage, 4, "Nyte"));
  }
  EXPECT_EQ(catch_error([&] { (void)set.open(); }).tensor(), "odd");
  const Catalog catalog = set.open({"odd"});
  ASSERT_EQ(catalog.tensors.size(), 1U);
  ASSERT_EQ(catalog.unreadable.size(), 1U);
  EXPECT_EQ(catalog.unreadable[0].name, "odd");
}

TEST(OpenRankFiles, AnErrorOfATensorNamesItAndTheDirectory) {
  MetaRanks set;
  set.rank(0).tensor("output.weight", DType::u8, {1, 3}, "abc");
  set.rank(1).tensor("output.weight", DType::u8, {1, 2}, "ab");
  const Error error = catch_error([&] { (void)set.open(); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "output.weight");
  EXPECT_FALSE(error.file().empty());
}

// verl writes the config below the files; a config next to them goes before it.
TEST(OpenRankFiles, TheConfigNextToTheFilesGoesFirst) {
  const TempDir dir;
  const std::string name = "consolidated.00.pth";
  TorchFileBuilder().tensor("norm.weight", DType::u8, {3}, "abc").write(dir / name);
  write_text(dir / "huggingface/config.json", "{\"of\":\"below\"}");
  write_text(dir / "huggingface/tokenizer.json", "{}");
  const auto open = [&](const Entries& entries) {
    return open_rank_files(StorePath(dir.path()), entries, {{name}, true}, {});
  };
  const Catalog below = open({name, "huggingface"});
  EXPECT_EQ(below.config_text, "{\"of\":\"below\"}");
  EXPECT_EQ(below.side_files, (Entries{"config.json", "tokenizer.json"}));
  write_text(dir / "config.json", "{}");
  const Catalog beside = open({"config.json", name, "huggingface"});
  EXPECT_EQ(beside.config_text, "{}");
  EXPECT_EQ(beside.side_files, Entries{"config.json"});
}

// The axes of a mesh and its ranks, in its order.
struct MeshOfRanks {
  Shape sizes;
  Shape ranks;
};

// Writes a file with the DTensor "w" of `whole` elements, split along its only dim. Its rank has
// `part`. There are so many axes with copies before the axis of the parts, and behind it.
void write_part_of_rank(const std::string& path, std::uint64_t whole, const std::string& part,
                        std::size_t copies = 0, const MeshOfRanks& mesh = {}) {
  std::string pickle;
  dcp::PickleWriter write(pickle);
  write.begin().op(Op::empty_dict).text("w");
  write.global("torch._tensor", "_rebuild_from_type_v2").op(Op::mark);
  write.global("torch._utils", "_rebuild_wrapper_subclass").op(Op::none);
  write.global("torch.distributed.tensor", "DTensor").op(Op::none).integers({whole});
  write.op(Op::tuple3).op(Op::empty_dict).op(Op::mark).text("_local_tensor");
  write.global("torch._utils", "_rebuild_tensor_v2").op(Op::mark).op(Op::mark).text("storage");
  write.global("torch", "ByteStorage").text("0").text("cpu").integer(part.size()).op(Op::tuple);
  write.op(Op::bin_pers_id).integer(0).integers({part.size()}).integers({1});
  write.op(Op::new_false).op(Op::none).op(Op::tuple).op(Op::reduce).text("_spec");
  write.global("torch.distributed.tensor._dtensor_spec", "DTensorSpec").op(Op::empty_tuple);
  write.op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
  if (mesh.sizes.rank() > 0) {
    write.text("mesh").global("torch.distributed.device_mesh", "DeviceMesh").op(Op::empty_tuple);
    write.op(Op::new_obj).op(Op::empty_dict).op(Op::mark).text("mesh");
    write.global("torch._utils", "_rebuild_tensor_v2").op(Op::mark).op(Op::none).integer(0);
    write.integers(mesh.sizes).op(Op::tuple).op(Op::reduce);
    write.text("_flatten_mesh_list").integers(mesh.ranks).op(Op::set_items).op(Op::build);
  }
  const auto replicas = [&] {
    for (std::size_t i = 0; i < copies; ++i) {
      write.global("torch.distributed.tensor.placement_types", "Replicate").op(Op::empty_tuple);
      write.op(Op::new_obj);
    }
  };
  write.text("placements").op(Op::mark);
  replicas();
  write.global("torch.distributed.tensor.placement_types", "Shard").integer(0).op(Op::tuple1);
  write.op(Op::new_obj);
  replicas();
  write.op(Op::tuple).op(Op::set_items).op(Op::build);
  write.op(Op::set_items).op(Op::tuple).op(Op::reduce).op(Op::set_item).op(Op::stop);
  TorchFileBuilder builder;
  builder.tensor("w", DType::u8, {part.size()}, part).record("data.pkl", pickle).write(path);
}

TEST(OpenRankFiles, PartsOfADTensorFollowEachOtherByRank) {
  const TempDir dir;
  const Entries names{"model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"};
  write_part_of_rank(dir / names[0], 5, "abc");
  write_part_of_rank(dir / names[1], 5, "de");
  const Catalog catalog = open_rank_files(StorePath(dir.path()), names, {names, false}, {});
  ASSERT_EQ(catalog.tensors.size(), 1U);
  EXPECT_EQ(catalog.tensors[0].shape, Shape{5});
  std::string joined(5, '?');
  catalog.files.at(2).path.open()->read_at(catalog.tensors[0].begin_bytes,
                                           std::as_writable_bytes(std::span(joined)));
  EXPECT_EQ(joined, "abcde");
}

// The parts are equal, so only the mesh tells which of them are copies.
TEST(OpenRankFiles, PartsOfADTensorAreJoinedOnTheMeshThatTheFilesState) {
  const TempDir dir;
  Entries names;
  for (const char* rank : {"0", "1", "2", "3"})
    names.push_back(std::string("model_world_size_4_rank_") + rank + ".pt");
  const auto open = [&](const MeshOfRanks& mesh) {
    for (const std::string& name : names) write_part_of_rank(dir / name, 4, "ab", 1, mesh);
    return open_rank_files(StorePath(dir.path()), names, {names, false}, {});
  };
  const auto refused = [&](const MeshOfRanks& mesh) {
    const Error error = catch_error([&] { (void)open(mesh); });
    EXPECT_EQ(error.tensor(), "w");
    return error.sentence();
  };
  const Shape in_order{0, 1, 2, 3};
  for (const Shape& sizes : {Shape{1, 2, 2}, Shape{2, 2, 1}}) {
    const Catalog catalog = open({sizes, in_order});
    std::string joined(4, '?');
    catalog.files.at(4).path.open()->read_at(catalog.tensors.at(0).begin_bytes,
                                             std::as_writable_bytes(std::span(joined)));
    EXPECT_EQ(joined, "abab");
  }
  EXPECT_EQ(refused({}),
            "the files don't state the device mesh of their 4 ranks; the meshes (1, 2, 2) and "
            "(2, 2, 1) fit, but join the tensor differently");
  EXPECT_EQ(refused({{4, 1, 1}, in_order}),
            "the parts of 4 ranks don't form the tensor of 4 on the mesh (4, 1, 1)");
  EXPECT_EQ(refused({{1, 2, 2}, {0, 2, 1, 3}}),
            "the ranks of the tensor's mesh (1, 2, 2) aren't 0, 1, 2, ... in this order");
}

TEST(OpenRankFiles, OneRanksPartIsNotReadAsTheTensor) {
  const TempDir dir;
  const std::string path = dir / "x.bin";
  write_part_of_rank(path, 3, "abc");
  EXPECT_EQ(open_torch(path)->catalog().tensors.at(0).shape, Shape{3});
  write_part_of_rank(path, 4, "abc");
  const Error error = catch_error([&] { (void)open_torch(path); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.file(), path);
  EXPECT_EQ(error.tensor(), "w");
  EXPECT_FALSE(error.hint_text().empty());
}

TEST(FindRankFiles, ARefusalCountsTheFilesThatAreThere) {
  const auto refused = [](const Entries& entries) {
    return catch_error([&] { find_rank_files(StorePath("x"), entries); });
  };
  const Error missing = refused({"consolidated.00.pth", "consolidated.02.pth"});
  EXPECT_EQ(missing.sentence(), "the file of rank 1 is missing; the directory has 2");
  EXPECT_EQ(missing.hint_text(), "copy the files of all ranks into one directory");
  EXPECT_EQ(refused({"model_world_size_4_rank_0.pt"}).sentence(),
            "the file of rank 1 is missing; the directory has 1");
  const Error runs = refused({"model_world_size_2_rank_0.pt", "model_world_size_4_rank_1.pt"});
  EXPECT_EQ(runs.sentence(), "the directory has files of 2 ranks and of 4 ranks");
  EXPECT_EQ(runs.hint_text(), "move the files of one run away");
  // verl's files go before Meta's.
  EXPECT_FALSE(
      find_rank_files(StorePath("x"), {"consolidated.00.pth", "model_world_size_1_rank_0.pt"})
          ->is_meta);
}

TEST(OpenRankFiles, ATensorOfOneFileIsSaidToBeMissingInTheOther) {
  for (const std::size_t full : {0U, 1U}) {
    MetaRanks set;
    for (const std::size_t i : {0U, 1U}) set.rank(i).tensor("norm.weight", DType::u8, {3}, "abc");
    set.rank(full).tensor("more", DType::u8, {3}, "abc");
    EXPECT_EQ(catch_error([&] { (void)set.open(); }).sentence(),
              full == 0 ? "the tensor is missing in the file of one rank"
                        : "the tensor is missing in the file of the first rank");
  }
}

TEST(OpenRankFiles, ThePartsOfATensorAreAFileWithAName) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) set.rank(i).tensor("output.weight", DType::u8, {1, 2}, "ab");
  const Catalog catalog = set.open();
  ASSERT_EQ(catalog.files.size(), 3U);
  EXPECT_EQ(catalog.files[2].name, "consolidated.00.pth (joined)");
  EXPECT_EQ(catalog.files[2].size_bytes, 4U);
  EXPECT_EQ(catalog.files[2].inodes.size(), 2U);
}

TEST(OpenRankFiles, APartOfOneRankIsSaidWithItsShapeAndTheTensors) {
  const TempDir dir;
  write_part_of_rank(dir / "x.bin", 4, "abc");
  const Error error = catch_error([&] { (void)open_torch(dir / "x.bin"); });
  EXPECT_EQ(error.sentence(), "the file has one rank's part, 3, of the tensor of 4");
  EXPECT_EQ(error.hint_text(),
            "pass the directory with the files of all ranks, model_world_size_N_rank_I.pt");
}

TEST(OpenRankFiles, OnlyANormHasTheWidth) {
  MetaRanks set;
  for (const std::size_t i : {0U, 1U}) {
    set.rank(i)
        .tensor("a.bias", DType::u8, {2}, "ab")
        .tensor("norm.weight", DType::u8, {1}, "c")
        .tensor("tok_embeddings.weight", DType::u8, {3, 1}, i == 0 ? "abc" : "def");
  }
  EXPECT_EQ(set.open().tensors.at(2).shape, (Shape{6, 1}));
}

TEST(OpenRankFiles, ATensorThatOneFileHasAloneStaysThere) {
  MetaRanks set;
  set.rank(0).tensor("output.weight", DType::u8, {0, 4}, "");
  set.rank(1).tensor("output.weight", DType::u8, {1, 4}, "abcd");
  const Catalog catalog = set.open();
  ASSERT_EQ(catalog.files.size(), 2U);
  EXPECT_EQ(catalog.tensors.at(0).file, 1U);
  std::string out(4, '?');
  catalog.files[1].path.open()->read_at(catalog.tensors[0].begin_bytes,
                                        std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "abcd");
}

// A plan knows a source by the digest of each file.
TEST(AssembledFile, ItsDigestCoversThePlacesAndTheFilesOfItsParts) {
  const auto digest = [](const std::string& header, std::uint64_t begin, const Shape& strides) {
    Assembly assembly;
    assembly.text = "x";
    CatalogFile file;
    file.name = "a.bin";
    file.header_sha256 = header;
    assembly.files = {file};
    AssembledBox box;
    box.begin_bytes = begin;
    box.begin = {0, 0};
    box.extent = {2, 2};
    box.strides = strides;
    assembly.add({"w", {2, 2}, 1, 0, {box}});
    return assembled_file(std::move(assembly)).header_sha256;
  };
  const std::string one = digest("1", 0, {1, 2});
  EXPECT_EQ(digest("1", 0, {1, 2}), one);
  EXPECT_NE(digest("2", 0, {1, 2}), one);
  EXPECT_NE(digest("1", 4, {1, 2}), one);
  EXPECT_NE(digest("1", 0, {2, 1}), one);
}

}  // namespace
}  // namespace hfshard::format::torch
