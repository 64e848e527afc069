#include "service/source_checks.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(CheckRecordedOptions, OnlyTheRecordedOptionsAreAllowed) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions options;
  options.mapping.options = {{"mtp", "true"}};
  EXPECT_NO_THROW(check_recorded_options(StorePath(dir.path()), options)) << "without a record";
  hfshard::convert(copy_fixture("deepseek3-mtp", dir / "source"), options, to_output(dir / "out"),
                   quiet);
  const StorePath step(dir / "out/0");
  EXPECT_NO_THROW(check_recorded_options(step, options));
  options.mapping.options = {{"mtp", "false"}};
  const Error error = catch_error([&] { check_recorded_options(step, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(),
            "hfshard.json says how this checkpoint was made, so an export can't use --option "
            "mtp=false");
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const Error of_plan = catch_error([&] { hfshard::plan(dir / "out", options, to_output({})); });
  EXPECT_EQ(of_plan.code(), ErrorCode::usage);
  EXPECT_EQ(of_plan.sentence(), error.sentence());
}

TEST(CheckNoTree, AModelHasNoItems) {
  const TempDir dir;
  const StorePath model(copy_fixture("qwen3", dir / "source"));
  EXPECT_NO_THROW(check_no_tree(model, {}));
  TreeOptions asked;
  asked.all_items = true;
  const Error error = catch_error([&] { check_no_tree(model, asked); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--items requires a checkpoint that is a tree of arrays");
}

TEST(CheckNoTree, OnlyAFileOfTorchHasARoot) {
  const TempDir dir;
  TreeOptions asked;
  asked.root = "model";
  write_text(dir / "pytorch_model.bin", torch_archive(DType::u8, {2}, "ab"));
  EXPECT_NO_THROW(check_no_tree(StorePath(dir / "pytorch_model.bin"), asked));
  const StorePath model(copy_fixture("qwen3", dir / "source"));
  EXPECT_EQ(catch_error([&] { check_no_tree(model, asked); }).code(), ErrorCode::usage);
}

TEST(CheckRoot, OnlyATreeThatWasMadeOfAModelRefusesOne) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  hfshard::convert(copy_fixture("qwen3", dir / "source"), {}, to_output(dir / "tree"), quiet);
  const StorePath tree(dir / "tree");
  EXPECT_NO_THROW(check_root(tree, ""));
  const Error error = catch_error([&] { check_root(tree, "params"); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(),
            "--root selects a subtree of a training state, and hfshard made this of a model");
  EXPECT_EQ(error.file(), dir / "tree");
  EXPECT_EQ(error.hint_text(), "pass --include to select arrays");
  TorchCheckpoint torch;
  torch.tensor("model.w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.write(dir / "torch");
  EXPECT_NO_THROW(check_root(StorePath(dir / "torch"), "model"));
  plain.tree.same = true;
  hfshard::convert(dir / "torch", plain, to_output(dir / "same"), quiet);
  EXPECT_NO_THROW(check_root(StorePath(dir / "same"), "model")) << "a reshard";
}

TEST(CheckRecordedOptions, AConfigARootAndTheVocabularyAllowOthers) {
  const TempDir dir;
  Reporter quiet;
  hfshard::convert(copy_fixture("deepseek3-mtp", dir / "source"), {}, to_output(dir / "out"),
                   quiet);
  const StorePath step(dir / "out/0");
  PlanOptions options;
  options.mapping.options = {{"mtp", "true"}, {"vocab", "64"}};
  const Error error = catch_error([&] { check_recorded_options(step, options); });
  EXPECT_EQ(error.sentence(),
            "hfshard.json says how this checkpoint was made, so an export can't use --option "
            "mtp=true");
  EXPECT_EQ(error.file(), dir / "out/0");
  EXPECT_EQ(error.hint_text(), "leave out the option, or pass --config DIR of the model as well");
  PlanOptions below = options;
  below.tree.root = "params";
  EXPECT_NO_THROW(check_recorded_options(step, below));
  PlanOptions with_config = options;
  with_config.tree.config_text = "{}";
  EXPECT_NO_THROW(check_recorded_options(step, with_config));
  options.mapping.options.erase("mtp");
  EXPECT_NO_THROW(check_recorded_options(step, options));
}

TEST(CheckNoFiles, AFlagOfFilesIsNamedWithItsFirstGlob) {
  const StorePath place("tree");
  EXPECT_NO_THROW(check_no_files(place, {}));
  const auto failure = [&](const FileGlobs& asked) {
    const Error error = catch_error([&] { check_no_files(place, asked); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.file(), place.text());
    return error.sentence() + "; " + error.hint_text();
  };
  FileGlobs asked;
  asked.leave = {"b*", "c*"};
  EXPECT_EQ(failure(asked),
            "\"b*\" selects files of a model, and this is a tree of arrays; pass globs of array "
            "names to --include and --exclude");
  asked.take = {"a*"};
  EXPECT_EQ(failure(asked),
            "\"a*\" selects files of a model, and this is a tree of arrays; pass globs of array "
            "names to --include and --exclude");
  asked.ignore_index = true;
  EXPECT_EQ(failure(asked),
            "--ignore-index requires a Hugging Face model, and this is a tree of arrays; leave out "
            "--ignore-index");
}

TEST(CheckNoTree, ItemsThatAreNamedAndARootAreRefused) {
  const TempDir dir;
  const StorePath model(copy_fixture("qwen3", dir / "source"));
  TreeOptions asked;
  asked.items = {"params"};
  const Error items = catch_error([&] { check_no_tree(model, asked); });
  EXPECT_EQ(items.sentence(), "--items requires a checkpoint that is a tree of arrays");
  EXPECT_EQ(items.file(), dir / "source");
  asked.root = "model";
  const Error root = catch_error([&] { check_no_tree(model, asked); });
  EXPECT_EQ(root.sentence(),
            "--root requires a tree of arrays, or a file of torch.save with dicts in it");
  EXPECT_EQ(root.hint_text(), "pass --include to select tensors of a model");
}

// DeepSpeed leaves a parameter of another process with the shape [0].
TEST(CheckElements, MoreThanHalfOfTheTensorsWithoutElementsAreRefused) {
  Catalog source;
  source.location = "model.bin";
  const auto add = [&](const std::string& name, const Shape& shape) {
    TensorInfo& info = source.tensors.emplace_back();
    info.name = name;
    info.shape = shape;
  };
  add("a", {2});
  add("b", {0});
  add("c", {0, 3});
  add("d", {0});
  EXPECT_NO_THROW(check_elements(source));
  std::vector<std::string> warnings;
  warn_of_no_elements(source, warnings);
  EXPECT_EQ(warnings, std::vector<std::string>{});
  add("e", {0});
  const Error error = catch_error([&] { check_elements(source); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "3 of 5 tensors have no elements: the checkpoint was saved without gathering its "
            "shards");
  EXPECT_EQ(error.file(), "model.bin");
  EXPECT_EQ(error.tensor(), "b");
  warn_of_no_elements(source, warnings);
  EXPECT_EQ(warnings,
            std::vector<std::string>{"the output is as empty as its source: " + error.sentence()});
}

// A copy of chosen tensors is as the user wants it.
TEST(CheckElements, AnEmptyModelIsCopiedOnlyByChoice) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::u8, {0})
      .tensor("b", DType::u8, {0})
      .tensor("c", DType::u8, {2})
      .write(dir / "model.safetensors");
  PlanOptions options;
  options.mapping.scheme = "hf";
  const auto planned = [&] {
    return hfshard::plan(dir / "model.safetensors", options, to_output({})).summary;
  };
  const Error error = catch_error([&] { planned(); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "a");
  options.mapping.include = {"*"};
  const PlanSummary found = planned();
  EXPECT_EQ(found.leaves, 3U);
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_EQ(found.warnings[0], "the output is as empty as its source: " + error.sentence());
}

// A selection of a conversion isn't a copy.
TEST(CheckElements, AnEmptyModelIsNotConvertedToAnotherScheme) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Catalog catalog = open_catalog(source);
  SafetensorsBuilder empty;
  for (const TensorInfo& info : catalog.tensors)
    empty.tensor(info.name, info.dtype, info.name == "model.norm.weight" ? info.shape : Shape{0});
  write_text(dir / "empty/config.json", read_file(source + "/config.json"));
  empty.write(dir / "empty/model.safetensors");
  const std::size_t count = catalog.tensors.size();
  for (const bool selected : {false, true}) {
    PlanOptions options;
    if (selected) options.mapping.include = {"model.norm.weight"};
    const Error error = catch_error([&] { hfshard::plan(dir / "empty", options, to_output({})); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << selected;
    EXPECT_EQ(error.sentence(),
              std::to_string(count - 1) + " of " + std::to_string(count) +
                  " tensors have no elements: the checkpoint was saved without gathering its "
                  "shards")
        << selected;
  }
}

}  // namespace
}  // namespace hfshard
