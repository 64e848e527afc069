#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/safetensors/open.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace hfshard::format {
namespace {

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
}

}  // namespace
}  // namespace hfshard::format
