#include "format/torch/ranks.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hfshard::format::torch
