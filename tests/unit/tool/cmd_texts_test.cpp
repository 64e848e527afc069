// The whole output of commands that compare and show checkpoints.

#include <cstring>
#include <initializer_list>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

std::string bytes_of(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

class Texts : public testing::Test {
 protected:
  std::string write(const std::string& name, const SafetensorsBuilder& builder) const {
    write_text(dir_ / name, builder.build());
    return dir_ / name;
  }
  std::string shown(const std::string& text) const {
    return std::regex_replace(text, std::regex(dir_.path()), "DIR");
  }
  std::string text(std::initializer_list<std::string> words, int status = 0) const {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, status) << run.err;
    return shown(run.out + run.err);
  }

  TempDir dir_;
};

// Returns a file with tensors that differ in each way from those of `with_b`.
SafetensorsBuilder with_a() {
  SafetensorsBuilder out;
  out.tensor("only", DType::u8, {2}, "ab");
  out.tensor("shape", DType::u8, {2}, "ab");
  out.tensor("type", DType::u8, {2}, "ab");
  out.tensor("values", DType::f32, {2, 2}, bytes_of({1, 2, 3, 4}));
  out.tensor("same", DType::u8, {3}, "abc");
  return out;
}

SafetensorsBuilder with_b() {
  SafetensorsBuilder out;
  out.tensor("other", DType::u8, {1}, "a");
  out.tensor("shape", DType::u8, {1, 2}, "ab");
  out.tensor("type", DType::i8, {2}, "ab");
  out.tensor("values", DType::f32, {2, 2}, bytes_of({1, 2, 3.5F, 8}));
  out.tensor("same", DType::u8, {3}, "abc");
  return out;
}

TEST_F(Texts, DiffNamesEachKindOfDifference) {
  const std::string a = write("a.safetensors", with_a());
  const std::string b = write("b.safetensors", with_b());
  EXPECT_EQ(text({"diff", a, b}, 5),
            "A         DIR/a.safetensors: huggingface, 5 arrays\n"
            "B         DIR/b.safetensors: huggingface, 5 arrays\n"
            "compared  2 arrays, 19 B each\n"
            "DIFFERENT 5 arrays, 2 elements: 1 in values, 1 with another dtype, 1 with another "
            "shape, 1 only in A, 1 only in B\n"
            "apart     2 by more\n"
            "only in A \"only\"  u8 2\n"
            "only in B \"other\"  u8 1\n"
            "shape     \"shape\"\n"
            "          A u8 2, B u8 1x2\n"
            "dtype     \"type\"\n"
            "          A u8 2, B i8 2\n"
            "differs   \"values\"\n"
            "          2 of 4 elements, first at [1, 0]\n"
            "          largest difference 4, 8388608 ulp\n"
            "          A  3\n"
            "             in a.safetensors, byte 307\n"
            "          B  3.5\n"
            "             in b.safetensors, byte 309\n");
  EXPECT_EQ(text({"diff", a, b, "--all", "--include", "[sv]*"}, 5),
            "A         DIR/a.safetensors: huggingface, 5 arrays\n"
            "B         DIR/b.safetensors: huggingface, 5 arrays\n"
            "compared  2 arrays, 19 B each\n"
            "DIFFERENT 2 arrays, 2 elements: 1 in values, 1 with another shape\n"
            "apart     2 by more\n"
            "equal     \"same\"\n"
            "shape     \"shape\"\n"
            "          A u8 2, B u8 1x2\n"
            "differs   \"values\"\n"
            "          2 of 4 elements, first at [1, 0]\n"
            "          largest difference 4, 8388608 ulp\n"
            "          A  3\n"
            "             in a.safetensors, byte 307\n"
            "          B  3.5\n"
            "             in b.safetensors, byte 309\n");
  EXPECT_EQ(text({"diff", a, b, "--exclude", "values", "--exclude", "[ost]*"}, 3),
            "hfshard: error [not_found]: no array of either checkpoint matches\n"
            "  hint    a glob must match a whole name, as hfshard inspect prints it; * matches "
            "anything\n");
  EXPECT_EQ(text({"diff", a, a}),
            "A         DIR/a.safetensors: huggingface, 5 arrays\n"
            "B         DIR/a.safetensors: huggingface, 5 arrays\n"
            "compared  5 arrays, 25 B each\n"
            "equal\n");
  EXPECT_EQ(text({"diff", a, a, "--quiet"}), "");
  EXPECT_EQ(text({"diff", a, a, "--all", "--include", "same"}),
            "A         DIR/a.safetensors: huggingface, 5 arrays\n"
            "B         DIR/a.safetensors: huggingface, 5 arrays\n"
            "compared  1 array, 3 B each\n"
            "equal\n"
            "equal     \"same\"\n");
}

TEST_F(Texts, TheJsonOfDiffHasEachKindOfDifference) {
  const std::string a = write("a.safetensors", with_a());
  const std::string b = write("b.safetensors", with_b());
  EXPECT_EQ(shown(dump_json(run_tool({"diff", a, b, "--json", "--quiet"}).json())),
            sorted(R"({"a": {"kind": "huggingface", "path": "DIR/a.safetensors", "tensors": 5}, "b":
      {"kind": "huggingface", "path": "DIR/b.safetensors", "tensors": 5}, "command":
      "diff", "compared_bytes": 19, "compared_objects": 0, "compared_tensors": 2,
      "differing_elements": 2, "differing_tensors": 5, "equal": false, "notes": [],
      "schema": 1, "structure": [], "tensors": [{"a": {"dtype": "u8", "shape": [2]},
      "kind": "only_a", "name": "only"}, {"b": {"dtype": "u8", "shape": [1]}, "kind":
      "only_b", "name": "other"}, {"a": {"dtype": "u8", "shape": [2]}, "b": {"dtype":
      "u8", "shape": [1, 2]}, "kind": "shape", "name": "shape"}, {"a": {"dtype": "u8",
      "shape": [2]}, "b": {"dtype": "i8", "shape": [2]}, "kind": "dtype", "name":
      "type"}, {"a": {"dtype": "f32", "shape": [2, 2]}, "b": {"dtype": "f32", "shape":
      [2, 2]}, "kind": "values", "name": "values", "values": {"a": {"byte": 307, "file":
      "a.safetensors", "index": [1, 0], "tensor": "values", "value": "3"}, "a_nans": 0,
      "b": {"byte": 309, "file": "b.safetensors", "index": [1, 0], "tensor": "values",
      "value": "3.5"}, "b_nans": 0, "by_ulps": [{"count": 0, "most_ulps": 1}, {"count":
      0, "most_ulps": 2}, {"count": 0, "most_ulps": 4}, {"count": 0, "most_ulps": 16},
      {"count": 0, "most_ulps": 128}, {"count": 0, "most_ulps": 1024}, {"count": 2}],
      "count": 2, "first": [1, 0], "largest_absolute": 4.0, "largest_ulps": 8388608}}],
      "through": ""})"));
}

// The first 20 are listed without --all; equal ones don't count.
TEST_F(Texts, APlanListsFourHundredLeavesAndInJsonAll) {
  SafetensorsBuilder builder;
  for (int i = 0; i < 401; ++i) builder.tensor(fmt::format("t{:03}", i), DType::u8, {1});
  const std::string model = dir_ / "many.safetensors";
  write_text(model, builder.build());
  const Json json = run_tool({"plan", model, "--scheme", "hf", "--json", "--quiet"}).json();
  ASSERT_EQ(json.at("leaves").as_array().size(), 401U);
  EXPECT_EQ(json.at("leaves").as_array()[400].at("path").as_string(), "t400");
  const std::string text = run_tool({"plan", model, "--scheme", "hf", "--quiet"}).out;
  EXPECT_NE(text.find("t399"), std::string::npos) << text;
  EXPECT_EQ(text.find("t400"), std::string::npos) << text;
  EXPECT_NE(text.find("1 more leaf"), std::string::npos) << text;
}

TEST_F(Texts, DiffListsTwentyDifferences) {
  const auto lines = [&](int count, bool all) {
    SafetensorsBuilder a;
    SafetensorsBuilder b;
    for (int i = 0; i < count; ++i) {
      const std::string name = "t" + std::to_string(100 + i);
      a.tensor(name, DType::u8, {1}, "a").tensor(name + "equal", DType::u8, {1}, "a");
      b.tensor(name, DType::u8, {1}, "b").tensor(name + "equal", DType::u8, {1}, "a");
    }
    const std::string first = write("a.safetensors", a);
    const std::string second = write("b.safetensors", b);
    const std::string out =
        all ? text({"diff", first, second, "--all"}, 5) : text({"diff", first, second}, 5);
    std::size_t listed = 0;
    for (std::size_t at = 0; (at = out.find("\ndiffers ", at)) != std::string::npos; ++at) ++listed;
    const std::size_t end = out.rfind('\n', out.size() - 2) + 1;
    return std::to_string(listed) + " " +
           (out.substr(end).starts_with("and ") ? out.substr(end) : "");
  };
  EXPECT_EQ(lines(20, false), "20 ");
  EXPECT_EQ(lines(21, false), "20 and 1 more; --all lists them\n");
  EXPECT_EQ(lines(21, true), "21 ");
}

TEST_F(Texts, InspectShowsAFileWithItsFacts) {
  const std::string a = write("a.safetensors", with_a());
  EXPECT_EQ(text({"inspect", a}),
            "huggingface checkpoint DIR/a.safetensors\n"
            "  tensor  dtype  shape  bytes  file\n"
            "  only    u8     2      2 B    a.safetensors\n"
            "  same    u8     3      3 B    a.safetensors\n"
            "  shape   u8     2      2 B    a.safetensors\n"
            "  type    u8     2      2 B    a.safetensors\n"
            "  values  f32    2x2    16 B   a.safetensors\n"
            "5 tensors, 1 file, 25 B (25 bytes)\n"
            "elements    13\n"
            "parameters  4\n");
  EXPECT_EQ(text({"inspect", a, "--summary"}),
            "huggingface checkpoint DIR/a.safetensors\n"
            "5 tensors, 1 file, 25 B (25 bytes)\n"
            "elements    13\n"
            "parameters  4\n");
  EXPECT_EQ(text({"inspect", a, "--chunks", "--filter", "s*"}),
            "huggingface checkpoint DIR/a.safetensors\n"
            "  tensor  chunk  bytes  from  to   file\n"
            "  same    [0]    3 B    315   318  a.safetensors\n"
            "  shape   [0]    2 B    295   297  a.safetensors\n"
            "2 tensors, 1 file, 5 B (5 bytes)\n"
            "elements    5\n"
            "parameters  0\n");
  EXPECT_EQ(
      shown(dump_json(run_tool({"inspect", a, "--filter", "values", "--chunks", "--json"}).json())),
      sorted(R"({"arrays": 1, "command": "inspect", "damaged": [], "damaged_count": 0, "data_read":
      false, "elements": 4, "files": [{"name": "a.safetensors", "size_bytes": 318}],
      "kind": "huggingface", "metadata": {}, "optimizer_elements": 0, "parameters": 4,
      "schema": 1, "size_bytes": 16, "tensors": [{"begin_bytes": 299, "dtype": "f32",
      "file": "a.safetensors", "name": "values", "pieces": [{"begin_bytes": 299,
      "end_bytes": 315, "file": "a.safetensors", "place": [0, 0], "stored": true}],
      "shape": [2, 2], "size_bytes": 16}]})"));
  EXPECT_EQ(text({"inspect", a, "--chunks", "--summary"}, 2),
            "hfshard: error [usage]: --chunks has no effect with --summary: a summary doesn't list "
            "arrays\n"
            "  hint    leave out --chunks or --summary\n");
}

TEST_F(Texts, InspectShowsAStepWithItsCodecsAndLoads) {
  const std::string a = write("a.safetensors", with_a());
  const std::string out = dir_ / "out";
  for (const char* step : {"3", "12"}) {
    ASSERT_EQ(run_tool({"convert", a, out, "--scheme", "hf", "--include", "s*", "--output-step",
                        step, "--quiet"})
                  .status,
              0);
  }
  const std::string shown_step =
      text({"inspect", out, "--step", "3", "--load-mesh", "fsdp=2", "--devices-per-host", "2"});
  const std::string without_digests =
      std::regex_replace(shown_step, std::regex("[0-9a-f]{64}"), "DIGEST");
  EXPECT_EQ(std::regex_replace(without_digests, std::regex("[0-9]+[.][0-9]+[.][0-9]+"), "V"),
            "orbax checkpoint DIR/out\n"
            "step 3; other steps: 12\n"
            "  leaf   dtype  shape  chunk  chunks  bytes\n"
            "  same   u8     3      3      1       3 B\n"
            "  shape  u8     2      2      1       2 B\n"
            "2 leaves, 2 chunks, 5 B (5 bytes)\n"
            "written by           hfshard V\n"
            "elements             5\n"
            "parameters           0\n"
            "codecs               bytes + crc32c\n"
            "hfshard.family       hf\n"
            "hfshard.plan_id      DIGEST\n"
            "hfshard.root_digest  DIGEST\n"
            "hfshard.scheme       hf\n"
            "hfshard.version      V\n"
            "scan_layers          false\n"
            "load      on fsdp=2: 1 host needs 5 B and reads 13 B in 2 requests (2.60x)\n");
  const Json json = run_tool({"inspect", out, "--step", "3", "--json"}).json();
  Json some;
  for (const char* name :
       {"kind", "step", "other_steps", "arrays", "elements", "parameters", "optimizer_elements",
        "size_bytes", "chunks", "leaves", "data_read", "damaged_count"})
    some[name] = json.at(name);
  EXPECT_EQ(
      dump_json(some),
      sorted(R"({"arrays": 2, "chunks": 2, "damaged_count": 0, "data_read": false, "elements": 5,
      "kind": "orbax", "leaves": [{"chunk": [3], "chunks": 1, "codecs": ["bytes",
      "crc32c"], "dtype": "u8", "path": "same", "shape": [3], "size_bytes": 3}, {"chunk":
      [2], "chunks": 1, "codecs": ["bytes", "crc32c"], "dtype": "u8", "path": "shape",
      "shape": [2], "size_bytes": 2}], "optimizer_elements": 0, "other_steps": [12],
      "parameters": 0, "size_bytes": 5, "step": 3})"));
  EXPECT_EQ(json.find("files"), nullptr);
  EXPECT_EQ(json.find("loads"), nullptr);
  EXPECT_EQ(json.find("error"), nullptr);
  EXPECT_EQ(json.find("unreadable"), nullptr);
}

TEST_F(Texts, VerifyNamesTheElementInBothPlaces) {
  const std::string a = write("a.safetensors", with_a());
  const std::string out = dir_ / "out";
  for (const char* step : {"3", "12"}) {
    ASSERT_EQ(run_tool({"convert", a, out, "--scheme", "hf", "--include", "values", "--checksum",
                        "none", "--output-step", step, "--quiet"})
                  .status,
              0);
  }
  EXPECT_EQ(text({"verify", out}),
            "step      12; other steps: 3\n"
            "verified  DIR/out/12: 16 B in 1 chunk, 1 source tensor, 6 files, 0 differences\n");
  EXPECT_EQ(text({"verify", out, a, "--step", "3"}),
            "step      3; other steps: 12\n"
            "verified  DIR/out/3: 16 B in 1 chunk, 1 source tensor, 6 files, 0 differences\n");
  const std::string file = out + "/12/items/d/00000";
  std::string bytes = read_text(file);
  bytes[bytes.find(bytes_of({3})) + 1] = 'x';
  write_text(file, bytes);
  EXPECT_EQ(text({"verify", out, a}, 5),
            "differs   \"values\" chunk (0, 0) from \"values\": differs from the source's, first "
            "at element [1, 0]\n"
            "          in items/d/00000, byte 8\n"
            "          made of element [1, 0] in a.safetensors, byte 307\n"
            "step      12; other steps: 3\n"
            "FAILED    DIR/out/12: 16 B in 1 chunk, 1 source tensor, 6 files, 1 difference\n");
  EXPECT_EQ(text({"verify", out}, 5),
            "differs   \"values\" from \"values\": digest cac7b3c5f8b73fad07226ebbfad236e8 differs "
            "from the recorded b8a98092a04fc9011e6dd6cbf9960d4d\n"
            "step      12; other steps: 3\n"
            "FAILED    DIR/out/12: 16 B in 1 chunk, 1 source tensor, 6 files, 1 difference\n");
  EXPECT_EQ(
      shown(dump_json(run_tool({"verify", out, a, "--json"}).json())),
      sorted(R"({"checked_bytes": 16, "chunks": 1, "command": "verify", "differences": [{"chunk":
      "0, 0", "file": "items/d/00000", "first": {"byte": 8, "file": "items/d/00000",
      "index": [1, 0], "tensor": "values"}, "leaf": "values", "source": {"byte": 307,
      "file": "a.safetensors", "index": [1, 0], "tensor": "values"}, "tensor": "values",
      "what": "differs from the source's, first at element [1, 0]"}], "files": 6,
      "objects": 0, "other_steps": [3], "path": "DIR/out/12", "schema": 1, "step": 12,
      "tensors": 1, "unrecorded_bytes": 0})"));
  EXPECT_EQ(run_tool({"verify", out, "--step", "3", "--quiet"}).status, 0);
}

}  // namespace
}  // namespace hfshard
