// Notes and refusals of trees that are exported, converted or resharded.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "service/source.h"
#include "support/catch_error.h"
#include "support/memory_store.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/names_of_modules.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class SourceTreesTest : public testing::Test {
 protected:
  static PlanOptions back() {
    PlanOptions out;
    out.target = "safetensors";
    out.mapping.scheme = "hf";
    return out;
  }
  static PlanOptions with_config(PlanOptions options) {
    options.tree.config_text = files_of("qwen3").config_text;
    options.tree.config_name = "config.json";
    return options;
  }
  static PlanOptions same(PlanOptions options) {
    options.tree.same = true;
    return options;
  }
  // Writes arrays as another program does. Returns their directory.
  std::string write_arrays(const std::string& out, const std::vector<Array>& arrays) const {
    TorchCheckpoint torch;
    for (const Array& array : arrays) torch.whole(array.name, array.dtype, array.shape);
    torch.write(dir_ / out);
    return dir_ / out;
  }
  // Writes the tensors of the qwen3 example with the names of a scheme.
  std::string write_model(const std::string& scheme) const {
    const Catalog files = files_of("qwen3");
    MappingOptions mapping;
    mapping.scheme = scheme;
    if (scheme == "hf") return write_arrays(scheme, {files.tensors.begin(), files.tensors.end()});
    const CompiledModel model = compile_model(files, mapping);
    return write_arrays(scheme, {model.leaves.begin(), model.leaves.end()});
  }
  // Converts a model, and returns the tree.
  std::string write_tree(const PlanOptions& options) {
    const std::string name = options.mapping.stacked ? "stacked" : "separate";
    hfshard::convert(copy_fixture("qwen3", dir_ / ("source of " + name)), options,
                     to_output(dir_ / name), quiet_);
    return dir_ / name;
  }
  static PlanSummary planned(const std::string& source, const PlanOptions& options) {
    return hfshard::plan(source, options, to_output({})).summary;
  }
  static Error failure(const std::string& source, const PlanOptions& options) {
    return catch_error([&] { planned(source, options); });
  }

  TempDir dir_;
  QuietReporter quiet_;
};

using TreeNotes = std::vector<std::string>;

TEST_F(SourceTreesTest, ATreeIsNotConvertedToItsOwnLeaves) {
  for (const bool stacked : {true, false}) {
    PlanOptions options;
    options.mapping.stacked = stacked;
    const std::string tree = write_tree(options);
    const Error error = failure(tree, options);
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.sentence(), std::string("the checkpoint has these leaves already (maxtext, ") +
                                    (stacked ? "stacked)" : "separate)"));
    EXPECT_EQ(error.hint_text(),
              "for another mesh, run hfshard reshard; for the Hugging Face model, pass --to "
              "safetensors --scheme hf");
    options.mapping.stacked = !stacked;
    EXPECT_GT(planned(tree, options).leaves, 0U);
  }
}

// --items all would copy them, but only without a change of the scheme.
TEST_F(SourceTreesTest, OnlyAReshardIsToldHowToCopyTheOtherItems) {
  const std::string tree = write_tree({});
  write_text(tree + "/0/loader/state.json", "{}");
  const std::string note = "left out, because hfshard reads one item of the step: loader";
  PlanOptions separate;
  separate.mapping.stacked = false;
  EXPECT_EQ(planned(tree, separate).notes.back(), note);
  PlanOptions reshard = same({});
  reshard.mapping.scheme = "hf";
  EXPECT_EQ(planned(tree, reshard).notes.back(), note + " (pass --items all to copy the others)");
  reshard.target = "dcp";
  EXPECT_EQ(planned(tree, reshard).notes.back(), note) << "another format";
  write_text(tree + "/metadata/_ROOT_METADATA", R"({"custom_metadata": {"run": 1}})");
  EXPECT_EQ(planned(tree, reshard).notes.back(), note + ", metadata/_ROOT_METADATA");
}

TEST_F(SourceTreesTest, AnExportHasAllLayers) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  hfshard::convert(source, {}, to_output(dir_ / "tree"), quiet_);
  PlanOptions options = back();
  options.mapping.num_layers = 1;
  const Error error = failure(dir_ / "tree", options);
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "an export has all layers, so it can't use --num-layers");
  EXPECT_EQ(error.hint_text(), "pass --include to select tensors by name");
  options = {};
  options.mapping.stacked = false;
  const std::uint64_t all = planned(dir_ / "tree", options).leaves;
  options.mapping.num_layers = 1;
  EXPECT_LT(planned(dir_ / "tree", options).leaves, all);
}

TEST_F(SourceTreesTest, ATreeWithTheModelsNamesIsCheckedWithAConfigOnly) {
  const std::string tree = write_model("hf");
  const std::string note =
      "without a config.json, hfshard can't check the tensors and converts all arrays; pass --root "
      "KEY to convert only those below one key";
  EXPECT_EQ(planned(tree, back()).notes, TreeNotes{note});
  EXPECT_EQ(planned(tree, with_config(back())).notes, TreeNotes{});
  EXPECT_EQ(planned(tree, with_config(same({}))).notes.front().substr(0, 21),
            "its names are those o");
}

TEST_F(SourceTreesTest, ATreeOfASchemeNeedsAConfigForTheModelsNames) {
  const std::string titan = write_model("torchtitan");
  const TreeNotes without = planned(titan, back()).notes;
  EXPECT_EQ(std::ranges::count(without,
                               "its names are torchtitan's; pass --config DIR of the model to get "
                               "the model's own names"),
            1);
  const PlanSummary named = planned(titan, with_config(back()));
  EXPECT_EQ(named.leaves, files_of("qwen3").tensors.size());
  EXPECT_TRUE(std::ranges::none_of(
      named.notes, [](const std::string& note) { return note.starts_with("its names are "); }));
  const Error error = failure(titan, {});
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "can't tell which model this checkpoint belongs to");
  EXPECT_EQ(error.hint_text(),
            "pass --config DIR, a directory with the model's config.json and tokenizer");
}

TEST_F(SourceTreesTest, OneFileOfAModelIsTooLittleForALoader) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const std::string file = source + "/model-00001-of-00002.safetensors";
  const Error error = failure(file, {});
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_TRUE(error.sentence().starts_with("the file is ")) << error.sentence();
  EXPECT_NE(error.sentence().find(" of a model: "), std::string::npos) << error.sentence();
  EXPECT_EQ(error.file(), file);
  EXPECT_EQ(error.hint_text(), "pass the directory: " + source);
}

TEST_F(SourceTreesTest, AReshardReadsNoModelAndAConversionOfATreeTakesNoFiles) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  const Error model = failure(source, same(back()));
  EXPECT_EQ(model.code(), ErrorCode::usage);
  EXPECT_EQ(model.sentence(), "reshard can't read this checkpoint");
  EXPECT_EQ(model.file(), source);
  EXPECT_EQ(model.hint_text(),
            "reshard reads Orbax and DCP checkpoints; for a Hugging Face model, run hfshard "
            "convert");
  EXPECT_EQ(failure(dir_ / "none", same(back())).code(), ErrorCode::not_found);
  PlanOptions options = back();
  options.files.ignore_index = true;
  const std::string tree = write_model("hf");
  EXPECT_EQ(failure(tree, options).sentence(),
            "--ignore-index requires a Hugging Face model, and this is a tree of arrays");
}

TEST_F(SourceTreesTest, AReshardOfTheModelsNamesHasNoAxesAndRefusesAnotherModels) {
  const std::string tree = write_model("hf");
  EXPECT_EQ(planned(tree, with_config(same({}))).notes,
            TreeNotes{"its names are those of the model's files, which have no logical axes: pass "
                      "--axes, or hfshard cuts the arrays by size"});
  const Catalog files = files_of("qwen3");
  std::vector<Array> arrays(files.tensors.begin(), files.tensors.end());
  Array& norm = *std::ranges::find(arrays, "model.norm.weight", &Array::name);
  const std::string wanted = to_string(norm.shape);
  norm.shape = {3};
  const Error error = failure(write_arrays("other", arrays), with_config(same({})));
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "model.norm.weight");
  EXPECT_EQ(error.sentence(), "the tensor is 3 here; this config says " + wanted);
  EXPECT_EQ(error.hint_text(),
            "check that the config belongs to this model and that the checkpoint is complete");
}

TEST_F(SourceTreesTest, ATreeThatLacksAFewArraysOfAConfigIsNotReshardedWithIt) {
  const Catalog files = files_of("qwen3");
  MappingOptions mapping;
  mapping.scheme = "torchtitan";
  const CompiledModel model = compile_model(files, mapping);
  std::vector<Array> arrays(model.leaves.begin(), model.leaves.end());
  const auto refused = [&](const std::string& out) {
    const Error error = failure(write_arrays(out, arrays), with_config(same({})));
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.file(), dir_ / out);
    EXPECT_EQ(error.hint_text(),
              "leave out --config to reshard the arrays that are there, or pass the config of this "
              "model");
    return error.tensor() + ": " + error.sentence();
  };
  const auto lose = [&](const std::string& name) {
    std::erase_if(arrays, [&](const Array& array) { return array.name == name; });
  };
  lose("norm.weight");
  EXPECT_EQ(refused("one"), "norm.weight: the checkpoint lacks one array of the model");
  lose("layers.0.attention_norm.weight");
  EXPECT_EQ(refused("two"),
            "layers.0.attention_norm.weight: the checkpoint lacks 2 arrays of the model");
}

// Another program can have written its files over those of hfshard.
TEST_F(SourceTreesTest, ATreeThatLacksANameOfItsRecordIsDamaged) {
  const std::string tree = write_arrays("first", {{"a", DType::u8, {4}}, {"b", DType::u8, {4}}});
  PlanOptions options = same({});
  options.target = "dcp";
  options.mapping.scheme = "hf";
  hfshard::convert(tree, options, to_output(dir_ / "kept"), quiet_);
  const std::string record = read_file(dir_ / "kept/hfshard.json");
  const auto with_record = [&](const std::string& out, const std::string& name) {
    write_arrays(out, {{name, DType::u8, {4}}});
    write_text(dir_ / (out + "/hfshard.json"), record);
    return dir_ / out;
  };
  const Error error = failure(with_record("less", "a"), options);
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the checkpoint lacks a tensor that its record names");
  EXPECT_EQ(error.tensor(), "b");
  EXPECT_EQ(error.hint_text(), "see hfshard verify " + (dir_ / "less") +
                                   "; if another program wrote these files, move hfshard.json "
                                   "away");
  EXPECT_EQ(planned(with_record("others", "c"), options).leaves, 1U);
}

TEST_F(SourceTreesTest, ARecordedTreeWithoutItsConfigHasTheArgumentForItsLayers) {
  for (const bool stacked : {true, false}) {
    PlanOptions options;
    options.mapping.stacked = stacked;
    const std::string tree = write_tree(options);
    const PlanSummary whole = planned(tree, same({}));
    std::filesystem::remove(tree + "/hf/config.json");
    const PlanSummary found = planned(tree, same({}));
    const std::string word = std::string("scan_layers=") + (stacked ? "true" : "false");
    EXPECT_EQ(std::ranges::count(found.load_words, word), 1) << word;
    EXPECT_GT(whole.load_words.size(), found.load_words.size());
    EXPECT_EQ(found.load_note,
              "Pass --config DIR of the model to add MaxText's arguments for its sizes.");
    EXPECT_NE(whole.load_note, found.load_note);
  }
}

// The record of the tree names files in its own directory.
TEST_F(SourceTreesTest, TheFilesOfAnExportAreThoseOfTheConfigThatIsNamed) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  write_text(source + "/tokenizer.json", "{}");
  PlanOptions torch = back();
  torch.target = "dcp";
  hfshard::convert(source, torch, to_output(dir_ / "tree"), quiet_);
  write_text(dir_ / "other/config.json", read_file(source + "/config.json"));
  write_text(dir_ / "other/vocab.json", "{}");
  const auto files = [&](const std::string& out, const PlanOptions& options) {
    hfshard::convert(dir_ / "tree", options, to_output(dir_ / out), quiet_);
    TreeNotes found = list_directory(dir_ / out);
    std::erase_if(found, [](const std::string& name) { return name.starts_with("model"); });
    return found;
  };
  EXPECT_EQ(files("recorded", back()),
            (TreeNotes{"config.json", "hfshard.json", "tokenizer.json"}));
  PlanOptions named = back();
  named.tree.config_name = dir_ / "other/config.json";
  named.tree.config_text = read_file(named.tree.config_name);
  EXPECT_EQ(files("named", named),
            (TreeNotes{"config.json", "hfshard.json", "hfshard.origin.json", "vocab.json"}));
}

TEST_F(SourceTreesTest, ATreeOfNoModelIsWrittenAsItIs) {
  const std::string tree = write_arrays("tree", {{"a.b", DType::u8, {4}}, {"c", DType::u8, {2}}});
  const PlanSummary found = planned(tree, back());
  EXPECT_EQ(found.scheme, "hf");
  EXPECT_EQ(found.leaves, 2U);
  const Error error = failure(tree, {});
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.file(), tree);
}

TEST_F(SourceTreesTest, AnotherSchemeNeedsAConfigOfAKnownFamily) {
  const std::string tree = write_model("hf");
  PlanOptions options;
  options.tree.config_name = dir_ / "mine/config.json";
  options.tree.config_text = R"({"model_type": "nobody"})";
  const Error error = failure(tree, options);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.file(), dir_ / "mine/config.json");
}

// DeepSpeed leaves them if the weights weren't gathered.
TEST_F(SourceTreesTest, ArraysWithoutElementsAreRefusedIfAConfigSaysThatItIsAModel) {
  const std::string tree = write_arrays(
      "tree", {{"a.w", DType::u8, {0}}, {"b.w", DType::u8, {0}}, {"c.w", DType::u8, {2}}});
  EXPECT_EQ(planned(tree, back()).leaves, 3U);
  PlanOptions options = back();
  options.tree.config_name = "config.json";
  options.tree.config_text = R"({"model_type": "nobody"})";
  const Error error = failure(tree, options);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_TRUE(error.sentence().starts_with("2 of 3 tensors have no elements: "))
      << error.sentence();
  EXPECT_EQ(error.tensor(), "a.w");
}

// The tree's values were decoded, so the config must not send loaders to codes.
TEST_F(SourceTreesTest, AConfigOfCodesIsWrittenWithoutThemForPlainArrays) {
  const std::string tree = write_model("hf");
  Json config = parse_json(files_of("qwen3").config_text, "config.json");
  const Json plain = config;
  config["quantization_config"] = parse_json(R"({"quant_method": "fp8"})", "");
  PlanOptions options = back();
  options.tree.config_name = dir_ / "fp8/config.json";
  options.tree.config_text = dump_json(config);
  write_text(options.tree.config_name, *options.tree.config_text);
  hfshard::convert(tree, options, to_output(dir_ / "out"), quiet_);
  EXPECT_EQ(parse_json(read_file(dir_ / "out/config.json"), "config.json"), plain);
}

// A text-only output of a model that can see.
TEST_F(SourceTreesTest, APartOfTheConfigThatATreeLacksIsNamed) {
  const std::string source = copy_fixture("qwen3-vl", dir_ / "source");
  PlanOptions torch;
  torch.target = "dcp";
  hfshard::convert(source, torch, to_output(dir_ / "tree"), quiet_);
  std::filesystem::remove(dir_ / "tree/hfshard.json");
  PlanOptions options = back();
  options.tree.config_name = source + "/config.json";
  options.tree.config_text = read_file(options.tree.config_name);
  const std::string note =
      "config.json describes a part that the checkpoint doesn't have: vision_config";
  EXPECT_EQ(planned(dir_ / "tree", options).notes, TreeNotes{note});
  torch.mapping.options["vision"] = "true";
  torch.mapping.stacked = false;
  hfshard::convert(source, torch, to_output(dir_ / "whole"), quiet_);
  std::filesystem::remove(dir_ / "whole/hfshard.json");
  const PlanSummary whole = planned(dir_ / "whole", options);
  EXPECT_EQ(std::ranges::count(whole.notes, note), 0);
  EXPECT_EQ(whole.leaves, open_catalog(source).tensors.size());
}

// Neither the model of the record nor a tree in another layout has them.
TEST_F(SourceTreesTest, NodesThatAreNotTheModelsAreLeftOutByName) {
  const std::string tree = write_tree({});
  const std::string path = tree + "/0/items/_METADATA";
  Json metadata = parse_json(read_file(path), path);
  metadata["custom_metadata"]["run"] = 1;
  metadata["tree_metadata"]["('note',)"] = parse_json(
      R"({"key_metadata": [{"key": "note", "key_type": 2}],
          "value_metadata": {"skip_deserialize": true, "value_type": "None"}})",
      "node");
  write_text(path, dump_json(metadata));
  const TreeNotes wanted{
      "left out, because the output holds only arrays: the strings and empty nodes \"note\"",
      "left out, because the output has no place for it: the custom metadata \"run\""};
  EXPECT_EQ(planned(tree, back()).notes, wanted);
  PlanOptions separate;
  separate.mapping.stacked = false;
  EXPECT_EQ(planned(tree, separate).notes, wanted);
}

TEST_F(SourceTreesTest, LinkedFilesThatWereWrittenToAreAWarning) {
  const std::string source = copy_fixture("qwen3", dir_ / "source");
  PlanOptions names;
  names.mapping.scheme = "hf";
  RunOptions run = to_output(dir_ / "linked");
  run.shards = ShardLinks::symbolic;
  link(source, names, {}, run, quiet_);
  const auto said = [&](const PlanOptions& options) {
    const TreeNotes warnings = planned(dir_ / "linked", options).warnings;
    return std::ranges::count_if(warnings, [](const std::string& text) {
      return text.starts_with("files were written to, or copied, since they were linked (\"");
    });
  };
  EXPECT_EQ(said(back()), 0);
  set_later(source + "/model-00001-of-00002.safetensors");
  EXPECT_EQ(said(back()), 1);
  EXPECT_EQ(said(same({})), 1);
}

// A loader of config.json would look for other names.
TEST_F(SourceTreesTest, ACopyOfASchemesNamesHasNoConfig) {
  PlanOptions options = back();
  options.tree.config_name = dir_ / "mine/config.json";
  options.tree.config_text = R"({"model_type": "nobody"})";
  write_text(options.tree.config_name, *options.tree.config_text);
  const auto has_config = [&](const std::string& scheme) {
    options.mapping.include = {"*"};
    const std::string out = dir_ / (scheme + "-out");
    hfshard::convert(write_model(scheme), options, to_output(out), quiet_);
    return std::filesystem::exists(out + "/config.json");
  };
  EXPECT_TRUE(has_config("hf"));
  EXPECT_FALSE(has_config("torchtitan"));
}

// The record says how many rows were written.
TEST_F(SourceTreesTest, RowsOfARecordedTreeAreComparedWithVocab) {
  const std::string tree = write_tree({});
  const Catalog files = open_catalog(dir_ / "source of stacked");
  const std::uint64_t rows = files.tensors.at(*files.find("model.embed_tokens.weight")).shape[0];
  PlanOptions options = back();
  options.mapping.options["vocab"] = std::to_string(rows);
  EXPECT_EQ(planned(tree, options).leaves, files.tensors.size());
  options.mapping.options["vocab"] = std::to_string(rows - 1);
  const Error error = failure(tree, options);
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "the checkpoint's vocabulary is larger: it has " +
                                  std::to_string(rows) + " rows, and --vocab says " +
                                  std::to_string(rows - 1));
  EXPECT_EQ(error.file(), tree + "/hf/config.json");
}

// A store whose data file is replaced each time that the metadata are opened.
class ReplacedStore final : public Store {
 public:
  ReplacedStore(const std::string& directory, bool replaces)
      : inner_(directory),
        data_(read_file(directory + "/" + TorchCheckpoint::kDataFile)),
        replaces_(replaces) {}
  std::string text(const std::string& name) const override { return inner_.text(name); }
  std::vector<std::string> list(const std::string& name) const override {
    return inner_.list(name);
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    return inner_.find(name);
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    if (replaces_ && name == "tree/.metadata") inner_.write(TorchCheckpoint::kDataFile, data_);
    return inner_.open(name);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                        std::shared_ptr<DropBehind> behind) const override {
    return inner_.open_data(name, wanted, std::move(behind));
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override { return {}; }

 private:
  mutable MemoryStore inner_;
  std::string data_;
  bool replaces_;
};

TEST_F(SourceTreesTest, ATreeThatIsReplacedWhileItIsOpenedIsRefused) {
  const std::string tree = write_arrays("tree", {{"a", DType::u8, {4}}});
  PlanOptions options = same({});
  options.target = "dcp";
  options.mapping.scheme = "hf";
  const auto open = [&](bool replaces) {
    return open_source_model(StorePath(std::make_shared<ReplacedStore>(tree, replaces), "tree"),
                             options);
  };
  EXPECT_EQ(open(false).model.leaves.size(), 1U);
  const Error error = catch_error([&] { open(true); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the source changed while hfshard read it");
  EXPECT_EQ(error.file(), "memory://tree");
}

// It keeps the record of the model beside its own.
TEST_F(SourceTreesTest, AReshardedDirectoryCanBeReplaced) {
  PlanOptions options;
  options.target = "dcp";
  options.mapping.scheme = "hf";
  const std::string tree = dir_ / "tree";
  hfshard::convert(write_model("hf"), options, to_output(tree), quiet_);
  RunOptions run = to_output(dir_ / "again");
  hfshard::convert(tree, same(options), run, quiet_);
  ASSERT_TRUE(std::filesystem::exists(dir_ / "again/hfshard.origin.json"));
  run.overwrite = true;
  EXPECT_FALSE(hfshard::convert(tree, same(options), run, quiet_).run.already_done);
}

}  // namespace
}  // namespace hfshard
