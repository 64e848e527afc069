#include "service/with_config.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "service/tree_source.h"
#include "support/temp_dir.h"
#include "unit/service/named_checkpoint.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

// Files of a model in `directory`, with a config, a tokenizer and a file that other models lack.
Catalog files_in(const std::string& directory) {
  Catalog out = catalog_named({"w"});
  out.location = directory;
  out.directory = StorePath(directory);
  out.config_text = R"({"a": 1})";
  out.side_files = {"config.json", "tokenizer.json", "vocab.json"};
  out.notes = {"first"};
  return out;
}

TreeOptions named(const std::string& path, const std::string& text) {
  TreeOptions out;
  out.config_name = path;
  out.config_text = text;
  return out;
}

TEST(WithConfig, TheSameConfigOrNoneLeavesTheFiles) {
  const TempDir dir;
  const auto files = checkpoint_of(files_in(dir / "own"));
  EXPECT_EQ(with_config(files, {}), files);
  write_text(dir / "other/config.json", "{}");
  EXPECT_EQ(with_config(files, named(dir / "other/config.json", R"({ "a" : 1 })")), files);
  EXPECT_NE(with_config(files, named(dir / "other/config.json", R"({"a": 2})")), files);
}

TEST(WithConfig, AnotherDirectoryGivesConfigAndTokenizerAndNamesTheFilesThatItLacks) {
  const TempDir dir;
  write_text(dir / "other/config.json", R"({"a": 2})");
  write_text(dir / "other/tokenizer.json", "{}");
  const TreeOptions asked = named(dir / "other/config.json", R"({"a": 2})");
  const Catalog found = with_config(checkpoint_of(files_in(dir / "own")), asked)->catalog();
  EXPECT_EQ(found.config_text, R"({"a": 2})");
  EXPECT_EQ(found.side_files, (Texts{"config.json", "tokenizer.json"}));
  EXPECT_EQ(found.directory.name(), dir / "other");
  EXPECT_EQ(found.location, dir / "own");
  EXPECT_EQ(found.notes,
            (Texts{"first", "hfshard used the config of --config, not the source's own",
                   "config and tokenizer come from \"" + (dir / "other") +
                       "\"; not copied: \"vocab.json\""}));
  EXPECT_EQ(names_of_arrays(found), Texts{"w"});
  write_text(dir / "other/vocab.json", "{}");
  Catalog bare = files_in(dir / "own");
  bare.config_text.clear();
  EXPECT_EQ(with_config(checkpoint_of(bare), asked)->catalog().notes, Texts{"first"})
      << "nothing is replaced or left";
}

// A plan that is made again has only the text of the config.
TEST(WithConfig, AConfigWithoutAFileKeepsTheOtherFilesOfTheSource) {
  const TempDir dir;
  const Catalog found = with_config(checkpoint_of(files_in(dir / "own")),
                                    named(dir / "gone/config.json", R"({"a": 2})"))
                            ->catalog();
  EXPECT_EQ(found.config_text, R"({"a": 2})");
  EXPECT_EQ(found.side_files, (Texts{"tokenizer.json", "vocab.json"}));
  EXPECT_EQ(found.directory.name(), dir / "own");
  EXPECT_EQ(found.notes,
            (Texts{"first", "hfshard used the config of --config, not the source's own"}));
}

TEST(WithoutSideFiles, TheTensorsAndTheConfigsTextStay) {
  const TempDir dir;
  const auto files = checkpoint_of(files_in(dir.path()));
  const auto found = without_side_files(files);
  EXPECT_EQ(found->catalog().side_files, Texts());
  EXPECT_EQ(found->catalog().config_text, R"({"a": 1})");
  EXPECT_EQ(names_of_arrays(found->catalog()), Texts{"w"});
  EXPECT_EQ(files->catalog().side_files.size(), 3U);
  EXPECT_GT(found->heap_bytes(), files->heap_bytes());
}

// Codes, scales of the same dtype, and the values of decoded codes.
TEST(KeepsCodes, AMatrixOfCodesThatIsCopiedIsKept) {
  Catalog catalog = catalog_named({"a.weight", "a.weight_scale", "list", "real"});
  for (TensorInfo& info : catalog.tensors) {
    info.shape = {2, 2};
    info.dtype = DType::i8;
  }
  catalog.tensors[2].shape = {4};
  catalog.tensors[3].dtype = DType::bf16;
  const auto keeps = [&](const std::vector<std::uint32_t>& sources, bool decodes) {
    CompiledModel model;
    model.transfers.emplace_back().sources = sources;
    if (decodes) model.transfers[0].decode = std::make_shared<Decode>();
    return keeps_codes(model, catalog);
  };
  EXPECT_TRUE(keeps({0}, false));
  EXPECT_FALSE(keeps({0}, true));
  EXPECT_FALSE(keeps({1}, false)) << "a scale";
  EXPECT_FALSE(keeps({2}, false)) << "not a matrix";
  EXPECT_FALSE(keeps({3}, false));
  EXPECT_TRUE(keeps({3, 0}, false)) << "one of several";
  EXPECT_FALSE(keeps_codes({}, catalog));
}

TEST(WithFilesOfCodes, TheirDescriptionIsLeftOutWithoutCodesAndSaidSo) {
  const TempDir dir;
  Catalog catalog = files_in(dir.path());
  catalog.tensors[0].shape = {2, 2};
  catalog.tensors[0].dtype = DType::i8;
  CompiledModel model;
  model.transfers.emplace_back().sources = {0};
  const auto plain = checkpoint_of(catalog);
  EXPECT_EQ(with_files_of_codes(plain, model), plain) << "no file describes codes";
  catalog.side_files.insert(catalog.side_files.begin() + 1, "quantize_config.json");
  const auto coded = checkpoint_of(catalog);
  EXPECT_EQ(with_files_of_codes(coded, model), coded) << "the codes stay";
  EXPECT_EQ(model.notes, Texts());
  model.transfers[0].decode = std::make_shared<Decode>();
  const auto found = with_files_of_codes(coded, model);
  EXPECT_EQ(found->catalog().side_files, (Texts{"config.json", "tokenizer.json", "vocab.json"}));
  EXPECT_EQ(model.notes,
            Texts{"not copied, since the output has no codes: \"quantize_config.json\""});
}

}  // namespace
}  // namespace hfshard
