#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/layout/limits.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "tool/element_report.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

TEST(Diff, DamageNamesTheNumberOfItsPlaces) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  const std::string embedding = "*.embedding";
  ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source}).status, 0);
  ASSERT_EQ(run_tool({"convert", source, out, "--chunk-bytes", "64", "--quiet"}).status, 0);
  std::filesystem::remove(out + "/0/items/d/00000");
  Limits limits;
  limits.merge_bytes = 1;  // the chunks are read one by one
  const ToolRun run =
      run_tool({"diff", source, out, "--include", embedding, "--json", "--quiet"}, &limits);
  EXPECT_EQ(run.status, 5) << run.err;
  const Json json = run.json();
  ASSERT_EQ(json.at("tensors").as_array().size(), 1U);
  const Json& tensor = json.at("tensors").as_array()[0];
  EXPECT_EQ(tensor.at("kind").as_string(), "damaged");
  ASSERT_EQ(tensor.at("damage").as_array().size(), 1U);
  const Json& damage = tensor.at("damage").as_array()[0];
  EXPECT_EQ(damage.at("side").as_string(), "b");
  EXPECT_GT(damage.at("places").as_uint(), 1U);
}

// The last class has no bound.
TEST(Diff, DifferencesAreCountedInClassesOfUlps) {
  const TempDir dir;
  const auto model = [&](const char* name, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    SafetensorsBuilder builder;
    builder.tensor("x", DType::f32, {values.size()}, bytes);
    write_text(dir / name, builder.build());
    return dir / name;
  };
  const float one = 1.0F;
  const float next = std::nextafter(one, 2.0F);
  const float far = std::numeric_limits<float>::infinity();
  const std::string a = model("a.safetensors", {one, one, one, one});
  const std::string b = model("b.safetensors", {one, next, far, 2.0F});
  const ToolRun run = run_tool({"diff", a, b, "--json", "--quiet"});
  EXPECT_EQ(run.status, 5) << run.err;
  const Json values = run.json().at("tensors").as_array().at(0).at("values");
  EXPECT_EQ(values.at("count").as_uint(), 3U);
  EXPECT_EQ(values.at("largest_absolute"), Json("inf"));
  const Json::Array& steps = values.at("by_ulps").as_array();
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_EQ(steps[0].at("most_ulps").as_uint(), 1U);
  EXPECT_EQ(steps[0].at("count").as_uint(), 1U);
  EXPECT_EQ(steps[5].at("most_ulps").as_uint(), 1024U);
  EXPECT_EQ(steps[6].find("most_ulps"), nullptr);
  EXPECT_EQ(steps[6].at("count").as_uint(), 2U);
  const ToolRun text = run_tool({"diff", a, b, "--quiet"});
  EXPECT_NE(text.out.find("apart     1 by up to 1 ulp, 2 by more\n"), std::string::npos)
      << text.out;
}

TEST(Diff, TheClassesOfUlpsCountElementsOfAllTensors) {
  const TempDir dir;
  const auto model = [&](const char* name, float x, float y) {
    const auto bytes = [](float value) {
      std::string out(sizeof(float), '\0');
      std::memcpy(out.data(), &value, out.size());
      return out;
    };
    write_text(dir / name, SafetensorsBuilder()
                               .tensor("x", DType::f32, {1}, bytes(x))
                               .tensor("y", DType::f32, {1}, bytes(y))
                               .build());
    return dir / name;
  };
  const std::string a = model("a.safetensors", 1.0F, 1.0F);
  const std::string b = model("b.safetensors", 1.0F + 0x1p-23F, 2.0F);
  const std::string out = run_tool({"diff", a, b, "--quiet"}).out;
  EXPECT_NE(out.find("apart     1 by up to 1 ulp, 1 by more\n"), std::string::npos) << out;
}

TEST(Diff, JsonHasEqualArraysOnlyWithAll) {
  const TempDir dir;
  const std::string model = dir / "a.safetensors";
  write_text(model, SafetensorsBuilder().tensor("x", DType::u8, {2}, "ab").build());
  const ToolRun run = run_tool({"diff", model, model, "--json", "--quiet"});
  EXPECT_TRUE(run.json().at("tensors").as_array().empty()) << run.out;
  const ToolRun all = run_tool({"diff", model, model, "--json", "--quiet", "--all"});
  const Json tensors = all.json().at("tensors");
  ASSERT_EQ(tensors.as_array().size(), 1U) << all.out;
  EXPECT_EQ(tensors.as_array()[0].at("kind").as_string(), "equal");
}

// A file has no items.
TEST(Diff, AllItemsAreTheDefault) {
  const TempDir dir;
  const std::string model = dir / "a.safetensors";
  write_text(model, SafetensorsBuilder().tensor("x", DType::u8, {2}, "ab").build());
  const ToolRun all = run_tool({"diff", model, model, "--items", "all", "--quiet"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_EQ(all.out, run_tool({"diff", model, model, "--quiet"}).out);
  const ToolRun one = run_tool({"diff", model, model, "--items", "ema", "--quiet"});
  EXPECT_EQ(one.status, 2);
  EXPECT_EQ(one.err,
            "hfshard: error [usage]: --items selects an item of a step, and neither checkpoint is "
            "a step\n  hint    leave out --items\n");
}

TEST(Diff, AToleranceIsANumberWithAKnownUnit) {
  const TempDir dir;
  const auto model = [&](const char* name, float value) {
    std::string bytes(sizeof(float), '\0');
    std::memcpy(bytes.data(), &value, bytes.size());
    write_text(dir / name, SafetensorsBuilder().tensor("x", DType::f32, {1}, bytes).build());
    return dir / name;
  };
  const std::string a = model("a.safetensors", 1.0F);
  const std::string b = model("b.safetensors", 1.0F + 0x1p-22F);  // two ulps
  const auto status = [&](const std::string& tolerance) {
    return run_tool({"diff", a, b, "--tolerance", tolerance, "--quiet"}).status;
  };
  for (const char* enough : {"2ulp", "2ulps", "0.001"}) EXPECT_EQ(status(enough), 0) << enough;
  for (const char* little : {"1ulp", "1ulps", "1e-9", "0"}) EXPECT_EQ(status(little), 5) << little;
  for (const char* wrong : {"99999999999999999999ulp", "2ulpx", "2xulp", "-1ulp", "1e999", "0.5x",
                            "abc", "-1", "inf", "nan"}) {
    const ToolRun run = run_tool({"diff", a, b, std::string("--tolerance=") + wrong, "--quiet"});
    EXPECT_EQ(run.status, 2) << wrong;
    EXPECT_NE(run.err.find(std::string("--tolerance can't be \"") + wrong + "\""),
              std::string::npos)
        << run.err;
  }
}

TEST(Diff, ATensorOfOneSideHasOneForm) {
  const TempDir dir;
  const std::string a = dir / "a.safetensors";
  const std::string b = dir / "b.safetensors";
  write_text(a, SafetensorsBuilder().tensor("x", DType::u8, {1}, "a").build());
  write_text(b, SafetensorsBuilder().tensor("y", DType::u8, {1}, "a").build());
  const Json tensors = run_tool({"diff", a, b, "--json", "--quiet"}).json().at("tensors");
  ASSERT_EQ(tensors.as_array().size(), 2U);
  for (const Json& tensor : tensors.as_array()) {
    const bool in_a = tensor.at("name").as_string() == "x";
    EXPECT_EQ(tensor.at("kind").as_string(), in_a ? "only_a" : "only_b");
    EXPECT_EQ(tensor.find("a") != nullptr, in_a);
    EXPECT_EQ(tensor.find("b") != nullptr, !in_a);
  }
}

// With NaNs alone, there is no largest difference.
TEST(Diff, NansAreCountedOnTheirSide) {
  const TempDir dir;
  const auto model = [&](const char* name, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    write_text(dir / name,
               SafetensorsBuilder().tensor("x", DType::f32, {values.size()}, bytes).build());
    return dir / name;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string numbers = model("numbers.safetensors", {1, 1});
  const std::string nans = model("nans.safetensors", {nan, 1});
  const auto line = [](const ToolRun& run) {
    const std::size_t at = run.out.find(" NaN in A");
    const std::size_t begin = run.out.rfind('\n', at) + 1;
    return run.out.substr(begin, run.out.find('\n', at) - begin);
  };
  EXPECT_EQ(line(run_tool({"diff", numbers, nans, "--quiet"})), "          0 NaN in A, 1 in B");
  EXPECT_EQ(line(run_tool({"diff", nans, numbers, "--quiet"})), "          1 NaN in A, 0 in B");
}

TEST(Diff, ATransposedElementIsNamedByItsIndexInTheSource) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  const std::string mapping = dir / "tiny.json";
  write_text(mapping,
             R"({"schema": 1, "family": "tiny", "match": {"model_type": ["tiny"]},
                 "dims": {"D": "hidden_size", "F": 2}, "example": {"hidden_size": 3},
                 "schemes": {"maxtext": {"root": "", "scan_axis": 0, "source": "a.py",
                   "axes": {"D": "embed", "F": "mlp"},
                   "global": [["up [F D]", "up [D F]"], ["norm [D]", "scale [D]"]]}}})");
  write_text(source + "/config.json", R"({"model_type": "tiny", "hidden_size": 3})");
  write_text(source + "/model.safetensors", SafetensorsBuilder()
                                                .tensor("norm", DType::u8, {3}, "xyz")
                                                .tensor("up", DType::u8, {2, 3}, "abcdef")
                                                .build());
  const ToolRun run =
      run_tool({"convert", source, out, "--mapping", mapping, "--checksum", "none", "--quiet"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string file = out + "/0/items/d/00000";
  std::string bytes = read_text(file);
  const std::size_t at = bytes.find("adbecf");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 'g';
  write_text(file, bytes);
  const std::string text = run_tool({"diff", source, out, "--quiet"}).out;
  EXPECT_NE(text.find("first at [0, 1]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("          A  100 at [1, 0] of \"up\"\n             in model.safetensors, "),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with(
      fmt::format("          B  103\n             in 0/items/d/00000, byte {}\n", at + 1)))
      << text;
}

// No tensor of the source has the values that a mapping fills in.
TEST(Diff, AFilledElementHasAValueAndNoPlace) {
  const TempDir dir;
  const std::string source = dir / "source";
  const std::string out = dir / "out";
  ASSERT_EQ(run_tool({"mappings", "example", "deepseek_v4", source}).status, 0);
  ASSERT_EQ(run_tool({"convert", source, out, "--checksum", "none", "--quiet"}).status, 0);
  const std::string leaf = "params.params.decoder.layers_0.mhc_mlp.mhc_norm.scale";
  const Json chunks =
      run_tool({"inspect", out, "--chunks", "--filter", leaf, "--json", "--quiet"}).json();
  const Json& piece = chunks.at("leaves").as_array().at(0).at("pieces").as_array().at(0);
  const std::uint64_t begin = piece.at("begin_bytes").as_uint();
  const std::string file = out + "/" + piece.at("file").as_string();
  std::string bytes = read_text(file);
  const float wrong = 1.5F;
  std::memcpy(bytes.data() + begin, &wrong, sizeof(wrong));
  write_text(file, bytes);
  const ToolRun text = run_tool({"diff", source, out, "--quiet"});
  EXPECT_EQ(text.status, 5);
  EXPECT_TRUE(
      text.out.ends_with(fmt::format("          1 of 95 elements, first at [0]\n"
                                     "          largest difference 0.5, 4194304 ulp\n"
                                     "          A  1\n"
                                     "          B  1.5\n"
                                     "             in 0/items/d/00000, byte {}\n",
                                     begin)))
      << text.out;
  const ToolRun verified = run_tool({"verify", out, source, "--quiet"});
  EXPECT_EQ(verified.status, 5);
  EXPECT_TRUE(verified.out.starts_with(
      fmt::format("differs   \"{}\" chunk (0): differs from the source's, first at element [0]\n"
                  "          in items/d/00000, byte {}\nFAILED ",
                  leaf, begin)))
      << verified.out;
}

TEST(Diff, TheBytesOfAnElementAreNamedIfTheyAreKnown) {
  ElementPlace place;
  place.file = "a file";
  EXPECT_EQ(element_place_text(place), "a file");
  place.range = ByteRange{16, 48};
  EXPECT_EQ(element_place_text(place), "a file, in bytes [16, 48)");
  place.byte = 20;
  EXPECT_EQ(element_place_text(place), "a file, byte 20");
  EXPECT_EQ(element_place_json(place).at("file").as_string(), "a file");
  EXPECT_EQ(element_place_json(ElementPlace()).find("file"), nullptr);
}

// Writes a tree of one array and this many empty nodes.
void write_nodes(const std::string& tree, int nodes) {
  std::string names = R"("w": {"key_metadata": [{"key": "w", "key_type": 2}],
      "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": false}})";
  for (int i = 0; i < nodes; ++i) {
    names += fmt::format(R"(, "n{0:02}": {{"key_metadata": [{{"key": "n{0:02}", "key_type": 2}}],
        "value_metadata": {{"value_type": "None", "skip_deserialize": true}}}})",
                         i);
  }
  write_text(tree + "/_METADATA",
             R"({"use_ocdbt": false, "store_array_data_equal_to_fill_value": true, )"
             R"("tree_metadata": {)" +
                 names + "}}");
  write_text(tree + "/w/.zarray",
             R"({"chunks": [4], "dtype": "|u1", "filters": null, "shape": [4], "zarr_format": 2,
                 "compressor": null, "order": "C", "fill_value": null})");
  write_text(tree + "/w/0", "abcd");
}

TEST(Diff, TwentyNamesOfTheStructureAreListed) {
  const TempDir dir;
  write_nodes(dir / "plain", 0);
  const auto lines = [&](int nodes, bool all) {
    const std::string tree = dir / fmt::format("tree{}", nodes);
    write_nodes(tree, nodes);
    const ToolRun run = all ? run_tool({"diff", tree, dir / "plain", "--all"})
                            : run_tool({"diff", tree, dir / "plain"});
    EXPECT_EQ(run.status, 5) << run.err;
    return run.out.substr(run.out.find("DIFFERENT"));
  };
  const std::string one = lines(1, false);
  EXPECT_EQ(one, "DIFFERENT structure: 1 name\nonly in A \"n00\": None\n");
  EXPECT_TRUE(lines(20, false).ends_with("only in A \"n19\": None\n"));
  EXPECT_TRUE(lines(21, false).starts_with("DIFFERENT structure: 21 names\n"));
  EXPECT_TRUE(
      lines(21, false).ends_with("only in A \"n19\": None\nand 1 more; --all lists them\n"));
  EXPECT_TRUE(lines(21, true).ends_with("only in A \"n20\": None\nequal     \"w\"\n"));
  const ToolRun other = run_tool({"diff", dir / "plain", dir / "tree1", "--json", "--quiet"});
  EXPECT_EQ(dump_json(other.json().at("structure")),
            sorted(R"([{"kind": "only_b", "name": "n00", "what": "None"}])"));
  EXPECT_FALSE(other.json().at("equal").as_bool());
  EXPECT_EQ(other.json().at("differing_tensors").as_uint(), 0U);
}

}  // namespace
}  // namespace hfshard
