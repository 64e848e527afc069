// Facts of a model's files that its catalog keeps.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "format/safetensors/open.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format::safetensors {
namespace {

using KeptNames = std::vector<std::string>;

TEST(HfCatalog, SharedNamesOfAllFilesAreKept) {
  const TempDir dir;
  for (const std::string part : {"1", "2"}) {
    SafetensorsBuilder builder;
    builder.tensor("t" + part, DType::bf16, {2}).metadata("s" + part, "t" + part);
    builder.write(dir / ("model-" + part + "-of-2.safetensors"));
  }
  const Catalog catalog = open_hf_catalog(dir.path());
  KeptNames shared;
  for (const SharedName& name : catalog.shared) shared.push_back(name.name + "=" + name.stored);
  EXPECT_EQ(shared, (KeptNames{"s1=t1", "s2=t2"}));
  EXPECT_EQ(catalog.notes, KeptNames());
  EXPECT_EQ(open_hf_catalog(dir / "model-2-of-2.safetensors").shared.at(0).name, "s2");
}

TEST(HfCatalog, AFolderWithFilesOfTheIndexIsNotLeftBehind) {
  const TempDir dir;
  SafetensorsBuilder().tensor("a", DType::u8, {2}).write(dir / "parts/m.safetensors");
  write_text(dir / kIndexName, index_json({{"a", "parts/m.safetensors"}}));
  EXPECT_EQ(open_hf_catalog(dir.path()).notes, KeptNames());
}

TEST(HfCatalog, TensorsOfOneFileAreSortedByName) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("b", DType::u8, {2})
      .tensor("c", DType::u8, {2})
      .tensor("a", DType::u8, {2})
      .write(dir / "m.safetensors");
  KeptNames names;
  for (const TensorInfo& tensor : open_hf_catalog(dir / "m.safetensors").tensors)
    names.push_back(tensor.name);
  EXPECT_EQ(names, (KeptNames{"a", "b", "c"}));
}

TEST(HfCatalog, AnAdaptersFileIsRefusedByItself) {
  const TempDir dir;
  SafetensorsBuilder().tensor("a", DType::u8, {2}).write(dir / "adapter_model.safetensors");
  const Error error = catch_error([&] { open_hf_catalog(dir / "adapter_model.safetensors"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(),
            "this is an adapter, not a model: found \"adapter_model.safetensors\"");
  SafetensorsBuilder().tensor("a", DType::u8, {2}).write(dir / "adapter_models.safetensors");
  EXPECT_EQ(open_hf_catalog(dir / "adapter_models.safetensors").tensors.size(), 1U);
}

TEST(HfCatalog, ABrokenLinkIsNoFileWithAHint) {
  const TempDir dir;
  std::filesystem::create_symlink("nowhere", dir / "m.safetensors");
  const Error error = catch_error([&] { open_hf_catalog(dir / "m.safetensors"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "no such file or directory");
  EXPECT_EQ(error.hint_text(),
            "it is a link to \"nowhere\", which doesn't exist; download the file again");
}

TEST(HfCatalog, AChoiceOfFilesReachesTheFormat) {
  const TempDir dir;
  for (const char* name : {"a", "b"})
    SafetensorsBuilder()
        .tensor(name, DType::u8, {2})
        .write(dir / (std::string(name) + ".safetensors"));
  Choice choice;
  choice.files.take = {"b*"};
  EXPECT_EQ(open_source(StorePath(dir.path()), choice)->catalog().tensors.at(0).name, "b");
  EXPECT_EQ(open_checkpoint(StorePath(dir.path()), choice)->catalog().tensors.at(0).name, "b");
}

TEST(HfCatalog, TheSecondPartOfASeriesCanBeTakenAlone) {
  const TempDir dir;
  const std::string second = "a-00002-of-00002.safetensors";
  SafetensorsBuilder().tensor("x", DType::u8, {2}).write(dir / "a-00001-of-00002.safetensors");
  SafetensorsBuilder().tensor("y", DType::u8, {2}).write(dir / second);
  Choice choice;
  choice.files.take = {"a-00002*"};
  const Catalog catalog = open_hf_catalog(dir.path(), choice);
  ASSERT_EQ(catalog.files.size(), 1U);
  EXPECT_EQ(catalog.files[0].name, second);
  EXPECT_EQ(catalog.notes, KeptNames{"left out by your globs, with the same parts: "
                                     "\"a-00001-of-00002.safetensors\""});
}

TEST(HfCatalog, AnAdapterNextToOtherWeightsIsAnAdapter) {
  const TempDir dir;
  for (const char* name : {"adapter_model", "more"})
    SafetensorsBuilder()
        .tensor(name, DType::u8, {2})
        .write(dir / (std::string(name) + ".safetensors"));
  EXPECT_EQ(catch_error([&] { open_hf_catalog(dir.path()); }).sentence(),
            "this is an adapter, not a model: found \"adapter_model.safetensors\"");
}

// The first copy is compared with all others.
TEST(HfCatalog, EachOfThreeCopiesCounts) {
  const TempDir dir;
  const auto part = [&](int number) {
    return dir / ("model-" + std::to_string(number) + "-of-3.safetensors");
  };
  for (const int number : {1, 2, 3})
    SafetensorsBuilder().tensor("a", DType::u8, {2}, "xy").write(part(number));
  EXPECT_EQ(open_hf_catalog(dir.path()).tensors.size(), 1U);
  for (const int other : {2, 3}) {
    SafetensorsBuilder().tensor("a", DType::u8, {2}, "xz").write(part(other));
    EXPECT_EQ(catch_error([&] { open_hf_catalog(dir.path()); }).code(), ErrorCode::bad_input);
    SafetensorsBuilder().tensor("a", DType::u8, {2}, "xy").write(part(other));
  }
}

TEST(HfCatalog, AnArchiveOfTorchUnderTheNameIsCalledOne) {
  const TempDir dir;
  write_text(dir / "m.safetensors", "PK\x03\x04 and more than eight bytes");
  const Error error = catch_error([&] { open_hf_catalog(dir / "m.safetensors"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "the file is a zip archive, as torch.save writes one, not safetensors");
  EXPECT_EQ(error.hint_text(), "if torch.save wrote it, rename it to end in .bin");
}

}  // namespace
}  // namespace hfshard::format::safetensors
