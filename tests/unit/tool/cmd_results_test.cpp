// The whole output of commands that write.

#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "unit/mapping/tiny_family.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

class Results : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_tool({"mappings", "example", "qwen3", source_, "--quiet"}).status, 0);
  }
  // Replaces directories, times, rates and digests.
  std::string shown(const std::string& text) const {
    std::string out = std::regex_replace(text, std::regex(dir_.path()), "DIR");
    out = std::regex_replace(out, std::regex("in [0-9.]+ s"), "in T s");
    out = std::regex_replace(out, std::regex("\\([0-9.]+ [KMG]iB/s\\)"), "(RATE)");
    return std::regex_replace(out, std::regex("[0-9a-f]{64}"), "DIGEST");
  }
  std::string out_of(std::initializer_list<std::string> words) const {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return shown(run.out);
  }
  std::string error_of(std::initializer_list<std::string> words) const {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 2) << run.out;
    return shown(run.err);
  }

  TempDir dir_;
  std::string source_ = dir_ / "in";
  std::string out_ = dir_ / "out";
};

TEST_F(Results, ConvertNamesTheOutputAndHowToLoadIt) {
  EXPECT_EQ(out_of({"convert", source_, out_, "--scheme", "hf", "--dtype", "f32"}),
            "published DIR/out/0/items (168 KiB in T s)\n"
            "family    any (hf: unchanged names and shapes)\n"
            "cast      27.4 KiB in, 54.8 KiB out: bf16 becomes f32\n"
            "digest    DIGEST\n"
            "next      hfshard inspect DIR/out/0/items\n"
            "tokenizer DIR/out/hf\n");
  EXPECT_EQ(out_of({"convert", source_, out_, "--scheme", "hf", "--dtype", "f32", "--resume"}),
            "complete  DIR/out/0/items is already complete with these options\n");
  EXPECT_EQ(out_of({"convert", source_, dir_ / "other", "--scheme", "hf", "--quiet"}), "");
  EXPECT_EQ(out_of({"convert", source_, "--to", "null", "--scheme", "hf"}),
            "discarded 144 KiB in T s (RATE)\n");
  EXPECT_EQ(out_of({"convert", source_, "--to", "null", "--scheme", "hf", "--quiet"}), "");
}

TEST_F(Results, ConvertWithoutAnOutIsAnError) {
  EXPECT_EQ(
      error_of({"convert", source_}),
      "hfshard: error [usage]: convert needs SOURCE and OUT\n"
      "  hint    run hfshard convert SOURCE OUT, or pass --dry-run to see what it would do\n");
  EXPECT_EQ(
      error_of({"reshard", source_}),
      "hfshard: error [usage]: reshard needs SOURCE and OUT\n"
      "  hint    run hfshard reshard SOURCE OUT, or pass --dry-run to see what it would do\n");
  EXPECT_EQ(
      error_of({"convert", source_, "--to", "dcp"}),
      "hfshard: error [usage]: convert needs SOURCE and OUT\n"
      "  hint    run hfshard convert SOURCE OUT, or pass --dry-run to see what it would do\n");
  EXPECT_EQ(error_of({"convert", source_, out_, "--scheme", "hf", "--mesh", "fsdp=2"}),
            "hfshard: error [usage]: --scheme hf has no logical axes, so --mesh needs --rules\n"
            "  hint    rules for --scheme hf name the dimensions dim_0, dim_1, ...: [[\"dim_0\", "
            "[\"fsdp\"]]]\n");
  EXPECT_EQ(run_tool({"convert", source_, "--dry-run", "--quiet"}).status, 0);
  EXPECT_EQ(
      run_tool({"convert", source_, out_, "--to", "dcp", "--mesh", "fsdp=2", "--dry-run"}).status,
      0);
  for (const char* command : {"convert", "link"}) {
    EXPECT_EQ(error_of({command, source_, out_, "--keep-files"}),
              "hfshard: error [usage]: --keep-files requires a Hub model (ORG/NAME)\n"
              "  file    DIR/in\n"
              "  hint    pass a Hub model as ORG/NAME\n")
        << command;
  }
}

TEST_F(Results, WorkersFinalizeAndCleanTellTheNextCommand) {
  const std::string odd = dir_ / "an out";
  EXPECT_EQ(
      out_of({"convert", source_, odd, "--scheme", "hf", "--worker", "0/2"}),
      "worker 0/2 wrote 0 B; when all workers are done, run: hfshard finalize 'DIR/an out'\n");
  EXPECT_EQ(
      out_of({"convert", source_, odd, "--scheme", "hf", "--worker", "1/2"}),
      "worker 1/2 wrote 144 KiB; when all workers are done, run: hfshard finalize 'DIR/an out'\n");
  EXPECT_EQ(out_of({"finalize", odd}),
            "published DIR/an out/0/items (144 KiB in T s)\n"
            "family    any (hf: unchanged names and shapes)\n"
            "digest    DIGEST\n"
            "next      hfshard inspect 'DIR/an out/0/items'\n"
            "tokenizer DIR/an out/hf\n");
  EXPECT_EQ(out_of({"finalize", odd}),
            "complete  DIR/an out/0/items is already complete with these options\n");
  EXPECT_EQ(out_of({"finalize", odd, "--quiet"}), "");
  EXPECT_EQ(out_of({"clean", odd}), "nothing   DIR/.an out.hfshard doesn't exist\n");
  EXPECT_EQ(out_of({"convert", source_, out_, "--worker", "0/2", "--quiet"}), "");
  EXPECT_EQ(out_of({"clean", out_}), "removed   DIR/.out.hfshard\n");
  EXPECT_EQ(out_of({"clean", out_, "--quiet"}), "");
  EXPECT_EQ(
      out_of({"clean", out_, "--json"}),
      sorted(R"({"command": "clean", "path": "DIR/.out.hfshard", "removed": false, "schema": 1})") +
          "\n");
}

TEST_F(Results, LinkTellsWhatItLinks) {
  EXPECT_EQ(error_of({"link", source_, out_, "--in-place"}),
            "hfshard: error [usage]: --in-place writes into SOURCE, so it can't take OUT\n"
            "  hint    leave out one of the two\n");
  EXPECT_EQ(error_of({"link", source_}),
            "hfshard: error [usage]: link needs SOURCE and OUT, or --in-place\n"
            "  hint    for an index beside the model's files: hfshard link SOURCE --in-place; "
            "elsewhere: hfshard link SOURCE OUT\n");
  EXPECT_EQ(error_of({"link", source_, out_, "--shards", "soft"}),
            "hfshard: error [usage]: --shards can't be \"soft\"\n"
            "  hint    pass one of auto, hard, symbolic, reflink\n");
  EXPECT_EQ(out_of({"link", source_, out_, "--scheme", "hf"}),
            "published DIR/out/0/items (27.4 KiB linked, 0 B written, in T s)\n"
            "digest    not recorded for linked data; pass --digests to read and record it\n"
            "next      hfshard inspect DIR/out/0/items\n"
            "note      linked chunks load more slowly than the chunks that convert writes\n");
  EXPECT_EQ(out_of({"link", source_, out_, "--scheme", "hf", "--resume"}),
            "complete  DIR/out/0/items is already complete with these options\n");
  EXPECT_EQ(out_of({"link", source_, out_, "--scheme", "hf", "--resume", "--quiet"}), "");
  EXPECT_EQ(
      out_of({"verify", out_}),
      "linked    27.4 KiB without digests: only size, time and header of their files were checked\n"
      "verified  DIR/out/0: 0 B in 0 chunks, 0 source tensors, 10 files, 0 differences\n");
  EXPECT_EQ(out_of({"link", source_, dir_ / "digests", "--scheme", "hf", "--digests"}),
            "published DIR/digests/0/items (27.4 KiB linked, 0 B written, in T s)\n"
            "digest    DIGEST\n"
            "next      hfshard inspect DIR/digests/0/items\n"
            "note      linked chunks load more slowly than the chunks that convert writes\n");
  const Json json = run_tool({"verify", dir_ / "digests", "--json"}).json();
  EXPECT_EQ(json.at("checked_bytes").as_uint(), 28044U);
  EXPECT_EQ(json.at("chunks").as_uint(), 36U);
  EXPECT_EQ(json.at("tensors").as_uint(), 36U);
  EXPECT_EQ(json.at("objects").as_uint(), 0U);
  EXPECT_EQ(json.at("unrecorded_bytes").as_uint(), 0U);
  EXPECT_EQ(json.at("step").as_uint(), 0U);
  EXPECT_EQ(run_tool({"link", source_, "--in-place", "--dry-run", "--scheme", "hf"}).status, 0);
  EXPECT_EQ(out_of({"link", source_, "--in-place", "--scheme", "hf"}),
            "published DIR/in (27.4 KiB linked, 0 B written, in T s)\n"
            "digest    not recorded for linked data; pass --digests to read and record it\n"
            "next      hfshard inspect DIR/in\n"
            "note      linked chunks load more slowly than the chunks that convert writes\n");
}

TEST_F(Results, LinkInJsonHasWhatIsLinkedAndWritten) {
  const Json json = run_tool({"link", source_, out_, "--scheme", "hf", "--cast",
                              "model.norm.weight=f32", "--json"})
                        .json();
  Json some;
  for (const char* name :
       {"command", "family", "linked_bytes", "linked_chunks", "linked_leaves", "not_linked",
        "wants_side_file", "written_bytes", "awaited", "published"})
    some[name] = json.at(name);
  EXPECT_EQ(dump_json(some),
            sorted(R"({"awaited": [], "command": "link", "family": "hf", "linked_bytes": 27992,
      "linked_chunks": 35, "linked_leaves": 35, "not_linked": [{"path":
      "model.norm.weight", "why": "it is cast from bf16 to f32"}], "published": true,
      "wants_side_file": false, "written_bytes": 4096})"));
}

TEST_F(Results, AMappingIsShownWithItsShapes) {
  const std::string mapping = dir_ / "tiny.json";
  write_text(mapping, std::string(kTinyFamily));
  EXPECT_EQ(out_of({"mappings", "show", "tiny", "--mapping", mapping}),
            "family tiny, scheme maxtext, layers stacked, shapes for its example\n"
            "norm.weight  [D]  7\n"
            "  -> params.norm.scale  [D]  7  axes norm\n"
            "layers.{l}.up.weight  [F D]  5x7  (3 tensors)\n"
            "  -> params.decoder.layers.wi.kernel  [D F]  7x3x5  axes embed, layers, mlp\n"
            "layers.{l}.experts.{e}.weight  [F D]  5x7  (12 tensors)\n"
            "  -> params.decoder.layers.experts  [e D F]  4x3x7x5  axes exp, layers, embed, mlp\n"
            "old.*  [*]\n"
            "  -> (dropped: unused)\n");
  write_text(
      dir_ / "config.json",
      R"({"model_type": "tiny", "hidden_size": 9, "num_hidden_layers": 1, "num_experts": 2})");
  EXPECT_EQ(out_of({"mappings", "show", "--mapping", mapping, "--layers", "separate", "--config",
                    dir_ / "config.json"}),
            "family tiny, scheme maxtext, layers separate, shapes for DIR/config.json\n"
            "norm.weight  [D]  9\n"
            "  -> params.norm.scale  [D]  9  axes norm\n"
            "layers.{l}.up.weight  [F D]  5x9\n"
            "  -> params.decoder.layers_{l}.wi.kernel  [D F]  9x5  axes embed, mlp\n"
            "layers.{l}.experts.{e}.weight  [F D]  5x9  (2 tensors)\n"
            "  -> params.decoder.layers_{l}.experts  [e D F]  2x9x5  axes exp, embed, mlp\n"
            "old.*  [*]\n"
            "  -> (dropped: unused)\n");
  const Json rules =
      run_tool({"mappings", "show", "--mapping", mapping, "--json"}).json().at("rules");
  ASSERT_EQ(rules.as_array().size(), 4U);
  EXPECT_EQ(shown(dump_json(rules.as_array()[2])),
            sorted(R"({"axes": "exp, layers, embed, mlp", "count": 12, "rule":
      "DIR/tiny.json#/schemes/maxtext/layer/rules/0",
      "source": "layers.{l}.experts.{e}.weight", "source_pattern": "[F D]",
      "source_shape": [5, 7], "target": "params.decoder.layers.experts",
      "target_pattern": "[e D F]", "target_shape": [4, 3, 7, 5], "value": ""})"));
  EXPECT_EQ(out_of({"mappings", "example", "tiny", dir_ / "tiny", "--mapping", mapping}),
            "DIR/tiny: 16 tensors in 1 file, 1.04 KiB (1064 bytes)\n");
  EXPECT_EQ(
      out_of({"mappings", "example", "tiny", dir_ / "sparse", "--mapping", mapping, "--sparse",
              "--dtype", "f32"}),
      "DIR/sparse: 16 tensors in 1 file, 2.08 KiB (2128 bytes), sparse: all zeros, no disk used\n");
  EXPECT_EQ(
      out_of({"mappings", "example", "tiny", dir_ / "quiet", "--mapping", mapping, "--quiet"}), "");
  EXPECT_EQ(out_of({"mappings", "check", dir_ / "tiny", "--mapping", mapping}),
            "family tiny, scheme maxtext, layers stacked\n"
            "rules    3\n"
            "tensors  16\n"
            "leaves   3\n"
            "complete: every element of the leaves has one origin, and every element of the "
            "tensors is used once\n");
  EXPECT_EQ(out_of({"mappings", "check", "--mapping", mapping}),
            "ok    tiny example maxtext, stacked: 3 rules, 16 tensors, 3 leaves, 0 dropped\n"
            "ok    tiny example maxtext, separate: 3 rules, 16 tensors, 7 leaves, 0 dropped\n"
            "2 checks, 0 model sizes, 0 problems\n");
}

}  // namespace
}  // namespace hfshard
