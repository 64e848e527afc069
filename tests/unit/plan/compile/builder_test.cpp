#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(ModelBuilder, AnUnreadableArrayThatIsLeftOutIsNoted) {
  FakeCatalog catalog;
  catalog.add("a", {3}).add("b", {3});
  UnreadableArray& array = catalog.unreadable.emplace_back();
  array.name = "odd";
  MappingOptions options = hf_names();
  EXPECT_TRUE(compile_model(catalog, options).notes.empty());
  options.exclude = {"odd"};
  const CompiledModel model = compile_model(catalog, options);
  EXPECT_EQ(model.notes, std::vector<std::string>{R"(not converted: "odd": --exclude "odd")"});
  EXPECT_TRUE(model.drops.empty());
  options.exclude = {"b"};
  EXPECT_TRUE(compile_model(catalog, options).notes.empty());
  options.exclude = {};
  options.include = {"a"};
  EXPECT_EQ(compile_model(catalog, options).notes,
            std::vector<std::string>{R"(not converted: "odd": not in --include)"});
}

// A subtree that isn't read has entries for its arrays.
TEST(ModelBuilder, AGlobForAnArrayOfTheStructureAloneMatchesNothing) {
  FakeCatalog catalog;
  catalog.add("a", {3});
  TreeStructure structure;
  structure.entries.emplace_back().path = "elsewhere";
  catalog.structure = std::make_shared<const TreeStructure>(structure);
  for (const std::string flag : {"--include", "--exclude", "--drop"}) {
    MappingOptions options = hf_names();
    (flag == "--include"   ? options.include
     : flag == "--exclude" ? options.exclude
                           : options.drop) = {"elsewhere"};
    const Error error = catch_error([&] { compile_model(catalog, options); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.sentence(), flag + " \"elsewhere\" doesn't match any tensor");
    EXPECT_EQ(error.file(), "fake");
    EXPECT_EQ(error.hint_text(),
              "a glob must match a whole name, as hfshard inspect prints it; quote it for the "
              "shell");
  }
}

TEST(ModelBuilder, ACheckpointWithoutArraysIsRefusedInItsFormatsWords) {
  FakeCatalog catalog;
  const auto refusal = [&] { return catch_error([&] { compile_model(catalog, hf_names()); }); };
  EXPECT_EQ(refusal().sentence(), "the checkpoint has no arrays");
  EXPECT_EQ(refusal().file(), "fake");
  EXPECT_EQ(refusal().hint_text(),
            "copy the directory: nothing in it depends on a mesh or a dtype");
  catalog.wording.has_files = true;
  EXPECT_EQ(refusal().hint_text(),
            "check that the download is complete: its weight files have no tensors");
}

TEST(ModelBuilder, AnObjectAloneIsAnOutputWithoutAFamilyOnly) {
  FakeCatalog catalog;
  catalog.add("model.norm.weight", {26});
  catalog.objects.emplace_back().name = "lr";
  MappingOptions options = hf_names();
  options.exclude = {"model.norm.weight"};
  EXPECT_TRUE(compile_model(catalog, options).leaves.empty());
  catalog.config_text = dump_json(example_config("qwen3"));
  options.dialect = "modules";
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "nothing is left to write: no rule has a tensor");
  EXPECT_EQ(error.file(), "fake");
}

TEST(ModelBuilder, AnEmptyKeyAndASlashAreToldApart) {
  const auto sentence = [](const char* path) {
    return catch_error([&] { check_path(path); }).sentence();
  };
  EXPECT_EQ(sentence("a..b"), "name \"a..b\" has an empty component");
  EXPECT_EQ(sentence("a/b.c"), "name \"a/b.c\" has a '/' in a component");
  EXPECT_EQ(catch_error([] { check_path("a."); }).hint_text(),
            "a tree path can't hold it; leave the tensor out with --exclude");
}

TEST(ModelBuilder, ABranchThatIsALeafTooIsNamedWithTheLongerName) {
  MappingOptions options = hf_names();
  const FakeCatalog catalog = FakeCatalog().add("a.b", {3}).add("a.b.c.d", {3});
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.sentence(), R"(leaf "a.b" is also the branch of "a.b.c.d")");
  EXPECT_EQ(error.hint_text(), "leave one of them out with --exclude");
  options.flat_names = true;
  EXPECT_EQ(compile_model(catalog, options).leaves.size(), 2U);
}

TEST(DropHint, EachNameOfAHeadIsOneOutsideOfLayers) {
  const std::string untie = "--untie";
  const auto unties = [&](const std::string& name, bool whole = true) {
    return drop_hint({}, {"other", name}, whole).find(untie) != std::string::npos;
  };
  for (const char* name : {"lm_head.weight", "head.weight", "params.logits_dense.kernel",
                           "output.weight", "a.b.head.c"})
    EXPECT_TRUE(unties(name)) << name;
  for (const char* name : {"head", "head.a.weight", "ahead.weight", "layers_0.output.kernel"})
    EXPECT_FALSE(unties(name)) << name;
  EXPECT_FALSE(unties("lm_head.weight", false)) << "most of each array is written";
}

TEST(AndOthers, CountsAllButTheFirst) {
  EXPECT_EQ(and_others(0), "");
  EXPECT_EQ(and_others(1), "");
  EXPECT_EQ(and_others(2), "; 1 other is similar");
  EXPECT_EQ(and_others(3), "; 2 others are similar");
}

TEST(IsOneArray, OnlyAWholeArrayInItsOrder) {
  const Shape shape{2, 3};
  Transfer transfer;
  transfer.sources = {4};
  transfer.source_shape = shape;
  transfer.map = identity_map(shape);
  EXPECT_TRUE(is_one_array(transfer, shape));
  transfer.source_dtype = DType::f32;
  EXPECT_TRUE(is_one_array(transfer, shape)) << "a cast changes no order";
  Transfer other = transfer;
  other.sources = {4, 5};
  EXPECT_FALSE(is_one_array(other, shape));
  other = transfer;
  other.value.mul = 2.0F;
  EXPECT_FALSE(is_one_array(other, shape));
  other = transfer;
  other.decode = std::make_shared<const Decode>();
  EXPECT_FALSE(is_one_array(other, shape));
  other = transfer;
  other.map.digits = {{2, 1, 3}, {3, 2, 1}};
  EXPECT_FALSE(is_one_array(other, shape)) << "transposed";
  other.map = {1, 0, {{5, 1, 1}}};
  EXPECT_FALSE(is_one_array(other, shape)) << "a part";
}

TEST(LeftOut, ExcludeComesBeforeInclude) {
  MappingOptions options;
  EXPECT_FALSE(left_out(options, "a"));
  options.include = {"a*"};
  options.exclude = {"b", "ab"};
  EXPECT_FALSE(left_out(options, "aa"));
  EXPECT_EQ(left_out(options, "ab")->flag, "--exclude");
  EXPECT_EQ(left_out(options, "ab")->why, "--exclude \"ab\"");
  EXPECT_EQ(left_out(options, "c")->flag, "--include");
  EXPECT_EQ(left_out(options, "c")->why, "not in --include");
}

TEST(ConfigPath, IsNextToAFileOfWeights) {
  EXPECT_EQ(config_path("model"), "model/config.json");
  EXPECT_EQ(config_path("model/other.json"), "model/other.json");
  for (const char* end : {".safetensors", ".bin", ".pt", ".pth"})
    EXPECT_EQ(config_path(std::string("model/weights") + end), "model/config.json") << end;
  EXPECT_EQ(config_path("model/step.npz"), "model/step.npz/config.json");
}

}  // namespace
}  // namespace hfshard
