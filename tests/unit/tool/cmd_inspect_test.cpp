#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include "support/test_data.h"
#include "support/torch_checkpoint.h"
#include "support/variables.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

// An example checkpoint and its converted output.
class Inspect : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source_}).status, 0);
    const ToolRun run = run_tool({"convert", source_, out_, "--quiet"});
    ASSERT_EQ(run.status, 0) << run.err;
  }

  TempDir dir_;
  std::string source_ = dir_ / "source";
  std::string out_ = dir_ / "out";
};

TEST_F(Inspect, RootStepAndItemDirectoryAreTheSameCheckpoint) {
  const Json leaves = run_tool({"inspect", out_, "--json"}).json().at("leaves");
  EXPECT_GT(leaves.as_array().size(), 10U);
  for (const std::string& path : {out_ + "/0", out_ + "/0/items", out_ + "/"}) {
    const Json object = run_tool({"inspect", path, "--json", "--data"}).json();
    EXPECT_EQ(object.at("leaves"), leaves);
    EXPECT_EQ(object.at("kind").as_string(), "orbax");
    EXPECT_TRUE(object.at("damaged").as_array().empty());
    EXPECT_TRUE(object.at("metadata").at("scan_layers").as_bool());
    EXPECT_EQ(object.at("metadata").at("hfshard").at("plan_id").as_string().size(), 64U);
  }
}

TEST_F(Inspect, TextNamesLeavesAndTotals) {
  const ToolRun run = run_tool({"inspect", out_});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.out.find("params.params.token_embedder.embedding"), std::string::npos);
  EXPECT_NE(run.out.find("15 leaves, 15 chunks"), std::string::npos);
  EXPECT_NE(run.out.find("hfshard.plan_id"), std::string::npos);
}

TEST_F(Inspect, NestedMetadataIsNamedByAllItsKeys) {
  const std::string path = out_ + "/0/items/_METADATA";
  Json metadata = parse_json(read_text(path), path);
  metadata["custom_metadata"] = parse_json(R"({"a": {"b": {"c": "deep"}}})", "custom_metadata");
  write_text(path, dump_json(metadata));
  const std::string out = run_tool({"inspect", out_}).out;
  EXPECT_NE(out.find("\na.b.c  "), std::string::npos) << out;
}

TEST_F(Inspect, AFlippedBitIsFoundByDataOnly) {
  const std::string file = out_ + "/0/items/d/00000";
  std::string bytes = read_text(file);
  bytes[2] = static_cast<char>(bytes[2] ^ 1);
  bytes[4096 + 2] = static_cast<char>(bytes[4096 + 2] ^ 1);
  write_text(file, bytes);
  EXPECT_EQ(run_tool({"inspect", out_}).status, 0);
  const ToolRun run = run_tool({"inspect", out_, "--data", "--json"});
  EXPECT_EQ(run.status, 3);
  const Json object = run.json();
  ASSERT_EQ(object.at("damaged").as_array().size(), 2U);  // both, not only the first
  EXPECT_EQ(object.at("error").at("code").as_string(), "corrupt");
  for (const Json& damage : object.at("damaged").as_array()) {
    EXPECT_NE(damage.at("tensor").as_string().find("params."), std::string::npos);
    EXPECT_EQ(damage.at("file").as_string(), "0/items/d/00000");
    EXPECT_LT(damage.at("begin_bytes").as_uint(), damage.at("end_bytes").as_uint());
  }
  const ToolRun text = run_tool({"inspect", out_, "--data"});
  EXPECT_EQ(text.status, 3);
  EXPECT_NE(text.out.find("in 0/items/d/00000, bytes ["), std::string::npos);
  EXPECT_NE(text.err.find("2 of 15 chunks are missing or damaged"), std::string::npos);
}

TEST_F(Inspect, ATruncatedDataFileIsCorrupt) {
  const std::string file = out_ + "/0/items/d/00000";
  write_text(file, read_text(file).substr(0, 4096));
  EXPECT_EQ(run_tool({"inspect", out_}).status, 3);
}

TEST_F(Inspect, HuggingFaceDirectoryAndFileAreTheSame) {
  const Json object = run_tool({"inspect", source_, "--json", "--data"}).json();
  EXPECT_EQ(object.at("kind").as_string(), "huggingface");
  EXPECT_EQ(object.at("metadata").at("family").as_string(), "qwen3");
  const Json file = run_tool({"inspect", source_ + "/model.safetensors", "--json"}).json();
  EXPECT_EQ(object.at("tensors"), file.at("tensors"));
  EXPECT_EQ(object.at("size_bytes"), file.at("size_bytes"));
  const ToolRun text = run_tool({"inspect", source_});
  EXPECT_NE(text.out.find("36 tensors, 1 file, "), std::string::npos);
}

TEST_F(Inspect, ATruncatedSafetensorsFileIsCorrupt) {
  const std::string file = source_ + "/model.safetensors";
  const std::string bytes = read_text(file);
  write_text(file, std::string_view(bytes).substr(0, bytes.size() - 1));
  EXPECT_EQ(run_tool({"inspect", source_, "--data"}).status, 3);
}

// Metadata are read completely with or without --data. Only reading the data detects this.
TEST_F(Inspect, AReadErrorInTheDataIsFoundByDataOnlyAndARetryMayHelp) {
  int reads = 0;
  for (int nth = 1; reads == 0 && nth < 100; ++nth) {  // counts the reads of metadata
    const SyscallFault fault("pread", nth, EIO);
    run_tool({"inspect", source_, "--quiet"});
    if (!fault.fired()) reads = nth;
  }
  ASSERT_GT(reads, 1);
  {
    const SyscallFault fault("pread", reads, EIO);
    EXPECT_EQ(run_tool({"inspect", source_, "--quiet"}).status, 0);
    EXPECT_FALSE(fault.fired());
  }
  const SyscallFault fault("pread", reads, EIO);
  const ToolRun run = run_tool({"inspect", source_, "--data", "--json", "--quiet"});
  EXPECT_EQ(run.status, 4);
  EXPECT_EQ(run.json().at("damaged_count").as_uint(), 1U);
  EXPECT_EQ(run.json().at("error").at("code").as_string(), "io");
}

TEST_F(Inspect, NamesCannotReachTheTerminalRaw) {
  const std::string header = R"({"\u001b[2Jx":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  store_le(std::as_writable_bytes(std::span(file)).data(), length);
  write_text(dir_ / "evil.safetensors", file + header + "x");
  const ToolRun run = run_tool({"inspect", dir_ / "evil.safetensors"});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  EXPECT_NE(run.out.find("\\x1b[2Jx"), std::string::npos);
}

TEST_F(Inspect, ASummaryHasTheTotalsAndNoLineForALeaf) {
  const ToolRun run = run_tool({"inspect", out_, "--summary"});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out.find("token_embedder"), std::string::npos);
  EXPECT_NE(run.out.find("15 leaves, 15 chunks"), std::string::npos);
  EXPECT_NE(run.out.find("written by  "), std::string::npos);
  const Json all = run_tool({"inspect", out_, "--json"}).json();
  const Json summary = run_tool({"inspect", out_, "--json", "--summary"}).json();
  EXPECT_EQ(summary.find("leaves"), nullptr);
  EXPECT_EQ(summary.at("arrays").as_uint(), 15U);
  EXPECT_TRUE(summary.at("writer").as_string().starts_with("hfshard "));
  std::uint64_t elements = 0;
  for (const Json& leaf : all.at("leaves").as_array()) {
    std::uint64_t each = 1;
    for (const Json& extent : leaf.at("shape").as_array()) each *= extent.as_uint();
    elements += each;
  }
  EXPECT_EQ(summary.at("elements").as_uint(), elements);
}

TEST_F(Inspect, AFilterLeavesTheRestOut) {
  const Json object = run_tool({"inspect", out_, "--filter", "*.embedding", "--json"}).json();
  ASSERT_EQ(object.at("leaves").as_array().size(), 1U);
  const Json& leaf = object.at("leaves").as_array()[0];
  EXPECT_EQ(object.at("size_bytes"), leaf.at("size_bytes"));
  EXPECT_EQ(object.at("chunks"), leaf.at("chunks"));
  const std::string file = out_ + "/0/items/d/00000";
  std::string bytes = read_text(file);
  for (std::size_t at = 0; at < bytes.size(); at += 256)
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_text(file, bytes);
  const ToolRun data = run_tool({"inspect", out_, "--filter", "*.embedding", "--data", "--json"});
  EXPECT_EQ(data.json().at("damaged_count").as_uint(), 1U);
  const ToolRun none = run_tool({"inspect", out_, "--filter", "nothing*"});
  EXPECT_EQ(none.status, 3);
  EXPECT_NE(none.err.find("no leaf has a name that matches \"nothing*\""), std::string::npos);
}

TEST_F(Inspect, ChunksAreWhereTheIndexSays) {
  for (const std::string& place : {out_, source_}) {
    const std::string member = place == out_ ? "leaves" : "tensors";
    const Json object = run_tool({"inspect", place, "--chunks", "--json"}).json();
    for (const Json& array : object.at(member).as_array()) {
      std::uint64_t bytes = 0;
      for (const Json& piece : array.at("pieces").as_array()) {
        EXPECT_TRUE(piece.at("stored").as_bool());
        EXPECT_NE(piece.at("file").as_string()[0], '/');
        bytes += piece.at("end_bytes").as_uint() - piece.at("begin_bytes").as_uint();
      }
      EXPECT_GE(bytes, array.at("size_bytes").as_uint());
    }
  }
  const ToolRun text = run_tool({"inspect", out_, "--chunks", "--filter", "*.embedding"});
  EXPECT_NE(text.out.find("0/items/d/00000"), std::string::npos);
  EXPECT_NE(text.out.find("[0, 0]"), std::string::npos);
  EXPECT_EQ(run_tool({"inspect", out_, "--chunks", "--summary"}).status, 2);
}

// Writes an array of 4 rows in two chunks, without the second.
void write_first_chunk(const std::string& tree, bool may_lack_chunks) {
  write_text(tree + "/_METADATA",
             std::string(R"({"tree_metadata":{"w":{"key_metadata":[{"key":"w","key_type":2}],)"
                         R"("value_metadata":{"value_type":"np.ndarray","skip_deserialize":)"
                         R"(false}}},"use_ocdbt":false,"store_array_data_equal_to_fill_value":)") +
                 (may_lack_chunks ? "false}" : "true}"));
  write_text(tree + "/w/.zarray",
             R"({"chunks":[2,6],"dtype":"|u1","filters":null,"shape":[4,6],"zarr_format":2,)"
             R"("compressor":null,"order":"C","fill_value":65})");
  write_text(tree + "/w/0.0", "ABCDEFGHIJKL");
}

TEST_F(Inspect, AChunkThatIsNotStoredHasNoBytes) {
  const std::string tree = dir_ / "tree";
  write_first_chunk(tree, /*may_lack_chunks=*/true);
  const std::string text = run_tool({"inspect", tree, "--chunks"}).out;
  EXPECT_NE(
      text.find("\n  w     [0, 0]  12 B        0     12  w/0.0\n  w     [1, 0]  not stored\n"),
      std::string::npos)
      << text;
  const Json json = run_tool({"inspect", tree, "--chunks", "--json", "--quiet"}).json();
  const Json::Array& pieces = json.at("leaves").as_array().at(0).at("pieces").as_array();
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_TRUE(pieces[0].at("stored").as_bool());
  EXPECT_EQ(pieces[0].at("end_bytes").as_uint(), 12U);
  EXPECT_FALSE(pieces[1].at("stored").as_bool());
  EXPECT_EQ(pieces[1].find("begin_bytes"), nullptr);
  EXPECT_EQ(pieces[1].find("end_bytes"), nullptr);
}

TEST_F(Inspect, DamageFoundWithoutTheDataHasAHint) {
  const std::string tree = dir_ / "tree";
  write_first_chunk(tree, /*may_lack_chunks=*/false);
  const std::string error = "hfshard: error [corrupt]: 1 of 2 chunks are missing or damaged\n";
  const std::string hint = "  hint    run inspect --data to read all data and list all damage\n";
  const ToolRun text = run_tool({"inspect", tree});
  EXPECT_EQ(text.status, 3);
  EXPECT_TRUE(text.err.starts_with(error)) << text.err;
  EXPECT_TRUE(text.err.ends_with(hint)) << text.err;
  const ToolRun data = run_tool({"inspect", tree, "--data"});
  EXPECT_EQ(data.status, 3);
  EXPECT_TRUE(data.err.starts_with(error)) << data.err;
  EXPECT_EQ(data.err.find("hint"), std::string::npos) << data.err;
}

// The search ends there.
TEST_F(Inspect, AMillionMissingChunksArentAllOfThem) {
  const std::string tree = dir_ / "tree";
  write_first_chunk(tree, /*may_lack_chunks=*/false);
  write_text(tree + "/w/.zarray",
             R"({"chunks":[1],"dtype":"|u1","filters":null,"shape":[1000001],"zarr_format":2,)"
             R"("compressor":null,"order":"C","fill_value":65})");
  const ToolRun run = run_tool({"inspect", tree});
  EXPECT_EQ(run.status, 3);
  EXPECT_TRUE(run.err.starts_with(
      "hfshard: error [corrupt]: more than 1000000 of 1000001 chunks are missing or damaged\n"))
      << run.err;
}

TEST_F(Inspect, InnerChunksAreShownIfAnArrayHasThem) {
  const std::string sharded = test_data("golden/orbax/single");
  const std::string text = run_tool({"inspect", sharded}).out;
  for (const char* line :
       {"chunks  bytes  inner chunk\n",
        "params.params.raw          f32    24x3    2x3     12      288 B  2x3\n",
        "params.params.shards       f32    8x8     4x8     2       256 B  2x4\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  const std::string plain = run_tool({"inspect", out_}).out;
  EXPECT_EQ(plain.find("inner"), std::string::npos) << plain;
  const Json json = run_tool({"inspect", sharded, "--json"}).json();
  for (const Json& leaf : json.at("leaves").as_array()) {
    const bool cut = leaf.at("path").as_string() == "params.params.shards";
    ASSERT_EQ(leaf.find("inner") != nullptr, cut) << dump_json(leaf);
    if (!cut) continue;
    EXPECT_EQ(dump_json(leaf.at("inner")), "[2,4]");
  }
}

TEST_F(Inspect, AxisRulesOfAFileNameTheMesh) {
  const std::string rules = dir_ / "rules.json";
  write_text(rules, R"([["embed", ["tensor"]]])");
  const ToolRun other = run_tool({"inspect", out_, "--load-mesh", "fsdp=2", "--rules", rules});
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(other.err,
            "hfshard: error [usage]: unknown mesh axis \"fsdp\"\n  hint    pass one of tensor\n");
  const auto read = [&](const std::string& text) {
    write_text(rules, text);
    return dump_json(
        run_tool({"inspect", out_, "--load-mesh", "fsdp=2", "--rules", rules, "--json"})
            .json()
            .at("loads"));
  };
  EXPECT_NE(read(R"([["embed", ["fsdp"]]])"), read(R"([["norm", ["fsdp"]]])"));
}

TEST_F(Inspect, AStepAndItsItemsAreChosen) {
  ASSERT_EQ(run_tool({"convert", source_, out_, "--output-step", "7", "--quiet"}).status, 0);
  const Json object = run_tool({"inspect", out_, "--step", "0", "--json"}).json();
  EXPECT_EQ(object.at("step").as_uint(), 0U);
  EXPECT_EQ(object.at("other_steps").as_array()[0].as_uint(), 7U);
  EXPECT_EQ(run_tool({"inspect", out_, "--json"}).json().at("step").as_uint(), 7U);
  EXPECT_EQ(run_tool({"inspect", out_, "--step", "1"}).status, 3);
  EXPECT_EQ(run_tool({"inspect", out_, "--items", "items"}).status, 0);
  EXPECT_EQ(run_tool({"inspect", out_, "--items", "state"}).status, 3);
  EXPECT_EQ(run_tool({"inspect", source_, "--step", "0"}).status, 2);
}

TEST_F(Inspect, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(run_tool({"inspect", dir_ / "nothing"}).status, 3);
  EXPECT_EQ(run_tool({"inspect"}).status, 2);
}

// It stays whole, so that it can be copied.
TEST_F(Inspect, AFactThatDoesNotFitIsBelowItsName) {
  const auto shown = [&](const char* columns) {
    const Variables variables("COLUMNS", columns);
    return run_tool({"inspect", out_, "--summary"}).out;
  };
  const std::string id = run_tool({"inspect", out_, "--json", "--quiet"})
                             .json()
                             .at("metadata")
                             .at("hfshard")
                             .at("plan_id")
                             .as_string();
  const std::string beside = "\nhfshard.plan_id      " + id + "\n";  // the longest name has 19
  const std::string below = "\nhfshard.plan_id\n  " + id + "\n";
  EXPECT_NE(shown("85").find(beside), std::string::npos) << shown("85");
  EXPECT_NE(shown("84").find(below), std::string::npos) << shown("84");
  EXPECT_NE(shown("84").find("\nhfshard.family       qwen3\n"), std::string::npos) << shown("84");
}

// Writes a checkpoint with a tensor "c", and others of a dtype that isn't known.
void write_odd(const std::string& path, const std::vector<std::string>& names) {
  TorchCheckpoint torch;
  for (const std::string& name : names)
    torch.tensor(name, DType::f64, {1}).part({0}, {1}, "abcdefgh", false);
  torch.tensor("c", DType::u8, {2}).part({0}, {2}, "ab", false);
  torch.write(path);
  std::string text = read_text(path + "/.metadata");
  for (std::size_t at = 0; (at = text.find("float64")) != std::string::npos;)
    text.replace(at, 7, "octuple");
  write_text(path + "/.metadata", text);
}

TEST_F(Inspect, OnlyTheNumberOfOtherArraysThatCannotBeReadIsAHint) {
  write_odd(dir_ / "torch", {"a"});
  const ToolRun data = run_tool({"inspect", dir_ / "torch", "--data"});
  EXPECT_EQ(data.status, 3);
  EXPECT_TRUE(data.err.ends_with("\n  tensor  \"a\"\n")) << data.err;
}

TEST_F(Inspect, AnArrayThatCannotBeReadIsNamedAndAnErrorOnlyOfAllData) {
  write_odd(dir_ / "torch", {"a", "b"});
  const ToolRun metadata = run_tool({"inspect", dir_ / "torch"});
  EXPECT_EQ(metadata.status, 0) << metadata.err;
  EXPECT_NE(metadata.out.find("\ncan't read  \"a\": "), std::string::npos) << metadata.out;
  EXPECT_NE(metadata.out.find("\ncan't read  \"b\": "), std::string::npos) << metadata.out;
  const ToolRun data = run_tool({"inspect", dir_ / "torch", "--data"});
  EXPECT_EQ(data.status, 3);
  EXPECT_TRUE(
      data.err.ends_with("  tensor  \"a\"\n  hint    1 more can't be read; the list above "
                         "has all\n"))
      << data.err;
  const Json json = run_tool({"inspect", dir_ / "torch", "--data", "--json", "--quiet"}).json();
  EXPECT_EQ(json.at("error").at("code").as_string(), "unsupported");
  ASSERT_EQ(json.at("unreadable").as_array().size(), 2U);
  const Json& first = json.at("unreadable").as_array()[0];
  EXPECT_EQ(first.at("name").as_string(), "a");
  EXPECT_EQ(first.at("message"), json.at("error").at("message"));
  EXPECT_EQ(json.at("arrays").as_uint(), 1U);
}

}  // namespace
}  // namespace hfshard
