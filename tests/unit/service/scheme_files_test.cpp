#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class SchemeFilesTest : public testing::Test {
 protected:
  // Writes the model with MaxText's names in a model's files, with its config and without a record.
  std::string named_by_maxtext(const std::string& without = {}) {
    QuietReporter reporter;
    PlanOptions options;
    options.target = "safetensors";
    hfshard::convert(source_, options, to_output(dir_ / "linen"), reporter);
    SafetensorsBuilder files;
    for (const TensorInfo& info : open_catalog(dir_ / "linen").tensors)
      if (info.name != without) files.tensor(info.name, info.dtype, info.shape);
    const std::string out = dir_ / "named";
    write_text(out + "/config.json", read_file(source_ + "/config.json"));
    files.write(out + "/model.safetensors");
    return out;
  }
  static PlanOptions back() {
    PlanOptions out;
    out.target = "safetensors";
    out.mapping.scheme = "hf";
    return out;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

// The model's tensors are made of all of them, so --include '*' can't take only what is there.
TEST_F(SchemeFilesTest, FilesThatLackATensorAreRefused) {
  const std::string name = "params.params.token_embedder.embedding";
  const std::string named = named_by_maxtext(name);
  for (const bool all : {false, true}) {
    PlanOptions options = back();
    if (all) options.mapping.include = {"*"};
    const Error error = catch_error([&] { hfshard::plan(named, options, to_output({})); });
    EXPECT_EQ(error.code(), ErrorCode::not_found) << all;
    EXPECT_EQ(error.sentence(), "the checkpoint lacks one tensor of the model") << all;
    EXPECT_EQ(error.tensor(), name) << all;
  }
}

// A reshard keeps names and the record of how they came about.
TEST_F(SchemeFilesTest, NamesThatAReshardKeptAreKnownByTheirRecordOrShowThemselves) {
  QuietReporter reporter;
  hfshard::convert(source_, small_options(), to_output(dir_ / "tree"), reporter);
  const auto note_of = [&](const std::string& name) {
    PlanOptions same = back();
    same.tree.same = true;
    hfshard::convert(dir_ / "tree", same, to_output(dir_ / name), reporter);
    write_text(dir_ / (name + "/config.json"), read_file(source_ + "/config.json"));
    const std::string out = dir_ / (name + "-back");
    const ConvertReport report = hfshard::convert(dir_ / name, back(), to_output(out), reporter);
    EXPECT_TRUE(open_catalog(out).find("model.embed_tokens.weight"));
    EXPECT_TRUE(diff(source_, out, {}, {}, reporter).equal());
    return report.plan.notes.empty() ? std::string() : report.plan.notes.front();
  };
  EXPECT_EQ(note_of("recorded"), "the source has MaxText's names, as hfshard.json says");
  std::filesystem::remove(dir_ / "tree/0/hfshard.json");
  EXPECT_EQ(note_of("foreign"), "the source has MaxText's names, as they show");
}

// A few arrays of a trainer don't make it a trainer's checkpoint.
TEST_F(SchemeFilesTest, FilesWithTheModelsNamesAreTheModelWhateverElseTheyHave) {
  SafetensorsBuilder files;
  for (const TensorInfo& info : open_catalog(source_).tensors)
    files.tensor(info.name, info.dtype, info.shape);
  files.tensor("params.params.decoder.decoder_norm.scale", DType::f32, {2});
  write_text(dir_ / "mixed/config.json", read_file(source_ + "/config.json"));
  files.write(dir_ / "mixed/model.safetensors");
  const PlanReport found = hfshard::plan(dir_ / "mixed", back(), to_output({}));
  EXPECT_EQ(found.summary.leaves, open_catalog(source_).tensors.size() + 1);
  EXPECT_EQ(found.summary.notes,
            std::vector<std::string>{"converted without a check, since no rule of family \"qwen3\" "
                                     "has it: \"params.params.decoder.decoder_norm.scale\""});
}

TEST_F(SchemeFilesTest, SizesOfAnotherConfigAreNamed) {
  const std::string named = named_by_maxtext();
  const std::string path = named + "/config.json";
  Json config = parse_json(read_file(path), path);
  const std::uint64_t rows = config.at("vocab_size").as_uint();
  config["vocab_size"] = rows + 8;
  write_text(path, dump_json(config));
  const Error error = catch_error([&] { hfshard::plan(named, back(), to_output({})); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.hint_text(), "set \"vocab_size\": " + std::to_string(rows) + " in config.json");
}

TEST_F(SchemeFilesTest, FilesOfASchemeBecomeAnotherScheme) {
  const std::string named = named_by_maxtext();
  QuietReporter reporter;
  PlanOptions titan;
  titan.target = "dcp";
  titan.mapping.scheme = "torchtitan";
  hfshard::convert(source_, titan, to_output(dir_ / "direct"), reporter);
  hfshard::convert(named, titan, to_output(dir_ / "onward"), reporter);
  const auto shapes = [&](const std::string& out) {
    std::vector<std::string> all;
    for (const StoredArray& array : inspect(dir_ / out, {}, reporter).checkpoint.arrays)
      all.push_back(array.name + " " + to_string(array.shape));
    return all;
  };
  EXPECT_EQ(shapes("onward"), shapes("direct"));
}

TEST_F(SchemeFilesTest, APrefixOrASelectionTakesTheNamesAsTheyAre) {
  const std::string named = named_by_maxtext();
  const std::uint64_t model = open_catalog(source_).tensors.size();
  PlanOptions options = back();
  options.mapping.include = {"*"};
  EXPECT_EQ(hfshard::plan(named, options, to_output({})).summary.leaves, model);
  options.mapping.include = {"*decoder_norm*"};
  const PlanReport some = hfshard::plan(named, options, to_output({}));
  ASSERT_EQ(some.leaves.size(), 1U);
  EXPECT_EQ(some.leaves[0].path, "params.params.decoder.decoder_norm.scale");
  options.mapping.include.clear();
  options.mapping.prefix = "x.";
  const Error error = catch_error([&] { hfshard::plan(named, options, to_output({})); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(),
            "the source lacks " + std::to_string(model) + " tensors of the model");
}

TEST_F(SchemeFilesTest, FilesOfASchemeAreWrittenUntied) {
  source_ = copy_fixture("qwen3-untied", dir_ / "untied");
  const std::string named = named_by_maxtext();
  Json config = parse_json(read_file(named + "/config.json"), "config.json");
  ASSERT_EQ(config.at("tie_word_embeddings"), Json(false));
  config["tie_word_embeddings"] = true;
  write_text(named + "/config.json", dump_json(config));
  PlanOptions untie = back();
  untie.mapping.untie = true;
  QuietReporter reporter;
  hfshard::convert(named, untie, to_output(dir_ / "back"), reporter);
  EXPECT_EQ(parse_json(read_file(dir_ / "back/config.json"), "").at("tie_word_embeddings"),
            Json(false));
  EXPECT_TRUE(open_catalog(dir_ / "back").find("lm_head.weight"));
  EXPECT_EQ(open_catalog(dir_ / "back").tensors.size(), open_catalog(source_).tensors.size());
}

}  // namespace
}  // namespace hfshard
