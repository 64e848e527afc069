// The command lines that hints offer.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/temp_dir.h"
#include "tool/cli.h"
#include "tool/habits.h"
#include "tool/mesh_words.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

// Returns the line that was meant, or "-".
std::string meant(const std::string& line) {
  Session session;
  const auto words = meant_words(program(session), split(line, ' '));
  return words ? join(*words, " ") : "-";
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

void expect_meant(const Pairs& pairs) {
  for (const auto& [typed, line] : pairs) EXPECT_EQ(meant(typed), line) << typed;
}

TEST(MeantLine, IsNothingForALineThatIsRight) {
  for (const char* line :
       {"convert a b", "convert a b --mesh fsdp=8 --layers stacked", "convert a b -- --tp 2",
        "verify out in", "inspect in --color never", "convert a b --dtype f32 --to dcp"})
    EXPECT_EQ(meant(line), "-") << line;
}

TEST(MeantLine, OutFollowsTheArgumentsAndSourceIsFirst) {
  expect_meant({{"convert --model a --out b", "convert a b"},
                {"convert a --quiet --out=b", "convert a b --quiet"},
                {"convert --out b a --quiet", "convert a b --quiet"},
                {"verify --source in out", "verify out in"},
                {"verify out --source in", "verify out in"},
                {"verify --source in --quiet", "verify in --quiet"},
                {"finalize --out b", "-"},
                {"inspect --model a", "inspect a"},
                {"fetch --repo-id a/b", "fetch a/b"},
                {"mappings list --model a", "-"},
                {"completions --model bash", "completions bash"},
                {"convert a b --model", "-"},
                {"convert a --out", "-"},
                {"plan a --out b", "plan a b"},
                {"convert -m a -O b --num_workers 2", "convert a b --jobs 2"}});
}

TEST(MeantLine, AnOptionBeforeTheArgumentsDoesNotChangeTheirOrder) {
  expect_meant({{"convert --quiet --out b a", "convert --quiet a b"},
                {"convert --jobs 2 --out b a", "convert --jobs 2 a b"},
                {"convert --quiet --model a b", "convert --quiet a b"},
                {"verify --quiet -m in out", "verify --quiet out in"},
                {"verify --quiet --source in", "verify in --quiet"}});
}

TEST(MeantLine, AxesOfAMeshBecomeOne) {
  expect_meant({{"convert a b --tp 2 --fsdp 8", "convert a b --mesh tensor=2,fsdp=8"},
                {"convert a b --mesh fsdp=2 --tp 4", "convert a b --mesh fsdp=2,tensor=4"},
                {"convert a b --tp 4 --mesh fsdp=2", "convert a b --mesh fsdp=2,tensor=4"},
                {"convert a b --ici_fsdp_parallelism=16", "convert a b --mesh fsdp=16"},
                {"convert a b --tp=x --quiet", "-"},
                {"convert a b --tp", "-"},
                {"verify a b --tp 2", "-"},
                {"convert a b --mesh fsdp=2 tensor=4 expert=8",
                 "convert a b --mesh fsdp=2,tensor=4,expert=8"},
                {"convert a b --mesh tp=2 x", "convert a b --mesh tensor=2 x"},
                {"convert a b --mesh fsdp 16", "convert a b --mesh fsdp=16"},
                {"convert a b --mesh fsdp x", "-"},
                {"convert a b --mesh other 16", "-"},
                {"convert a b --mesh 16", "convert a b --mesh fsdp=16"},
                {"inspect a --load-mesh tp=2 --quiet", "inspect a --load-mesh tensor=2 --quiet"}});
}

TEST(MeantLine, LayersHaveTheWordsOfMaxText) {
  expect_meant({{"convert a b scan_layers=true", "convert a b --layers stacked"},
                {"convert a b scan_layers=False", "convert a b --layers separate"},
                {"convert a b Scan-Layers=off", "convert a b --layers separate"},
                {"convert a b scan_layers=maybe", "-"},
                {"inspect a scan_layers=true", "-"},
                {"convert a b --scan-layers", "convert a b --layers stacked"},
                {"convert a b --scan-layers --quiet", "convert a b --layers stacked --quiet"},
                {"convert a b --scan-layers no --quiet", "convert a b --layers separate --quiet"},
                {"convert a b --scan-layers c", "convert a b --layers stacked c"},
                {"convert a b --scan_layers=1", "convert a b --layers stacked"},
                {"convert a b --scan_layers=0", "convert a b --layers separate"},
                {"convert a b --scan_layers=flase", "convert a b --layers separate"},
                {"convert a b --scan_layers=maybe", "-"},
                {"convert a b --unscanned", "convert a b --layers separate"},
                {"convert a b --layers unscanned", "convert a b --layers separate"}});
}

TEST(MeantLine, FlagsAndValuesHaveTheNamesOfThisProgram) {
  expect_meant(
      {{"convert a b --force", "convert a b --overwrite"},
       {"clean a --force", "clean a"},
       {"clean a --verbose", "clean a"},
       {"inspect a --bf16", "-"},
       {"inspect a --continue", "-"},
       {"convert a b --bf16 -n", "convert a b --dtype bf16 --dry-run"},
       {"convert a b --verbose", "convert a b"},
       {"convert a b --torch-dtype bfloat16", "convert a b --dtype bf16"},
       {"convert a b --dtype Float32", "convert a b --dtype f32"},
       {"convert a b --dtype f3", "-"},
       {"mappings example qwen3 b --dtype bfloat16", "mappings example qwen3 b --dtype bf16"},
       {"convert a b --to JAX", "convert a b --to orbax"},
       {"convert a b --to", "-"},
       {"convert a b --max_memory 1GiB", "convert a b --max-memory 1GiB"},
       {"convert a b --Max-Memory=1GiB", "convert a b --max-memory 1GiB"},
       {"convert a b --ram 1GiB", "convert a b --max-memory 1GiB"},
       {"inspect a --ram 1GiB", "-"},
       {"convert a b --quiet=x", "-"},
       {"convert a b --ignore_index", "convert a b --ignore-index"},
       {"convert a b --max_memory 1GiB -- --max_memory",
        "convert a b --max-memory 1GiB -- --max_memory"}});
}

TEST(MeantLine, CommandsHaveTheNamesOfThisProgram) {
  const TempDir dir;
  const std::string here = dir.path();
  expect_meant({{"export a b --to dcp", "convert a b --to dcp"},
                {"resume a b", "convert a b --resume"},
                {"list", "mappings list"},
                {"list a", "inspect a"},
                {"ls", "mappings list"},
                {"dump", "-"},
                {"families", "mappings list"},
                {"hfshard convert a b", "convert a b"},
                {"a/b convert c", "convert a/b c"},
                {"a convert c", "-"},
                {"-a/b convert c", "-"},
                {"a/b c", "convert a/b c"},
                {"a/b", "inspect a/b"},
                {"a/b --quiet", "inspect a/b --quiet"},
                {"-a/b", "-"},
                {"nonsense", "-"},
                {"convert inspect b", "-"},
                {"mapping list", "mappings list"}});
  EXPECT_EQ(meant(here + " out"), "convert " + here + " out");
}

TEST(MeantLine, MeshesOfOtherPrograms) {
  const auto mesh = [](const Pairs& pairs) {
    for (const auto& [typed, is] : pairs) EXPECT_EQ(mesh_of(typed), is) << typed;
  };
  mesh({{"16", "fsdp=16"},
        {"fsdp16", "fsdp=16"},
        {"FSDP16,TP2", "fsdp=16,tensor=2"},
        {"fsdp=2 tensor=2", "fsdp=2,tensor=2"},
        {"fsdp=2; tensor : 2", "fsdp=2,tensor=2"},
        {"{'fsdp': 2}", "fsdp=2"},
        {"{\"dp\": 2, \"tp\": 4}", "data=2,tensor=4"},
        {"other16", "other16"},
        {"Other=16", "other=16"},
        {"fsdp", "fsdp"},
        {"fsdp =  2", "fsdp=2"},
        {"fsdp=2,,tp=2,", "fsdp=2,tensor=2"},
        {"fsdp=2.0", "fsdp=2.0"}});
}

// Returns the hint of a command that is an error, or all that was printed.
std::string hint(const std::string& line) {
  std::vector<const char*> argv{"hfshard"};
  const std::vector<std::string> words = split(line, ' ');
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStderr();
  EXPECT_NE(tool_main(static_cast<int>(argv.size()), argv.data()), 0) << line;
  const std::string err = testing::internal::GetCapturedStderr();
  const std::string label = "  hint    ";
  const std::size_t at = err.find(label);
  return at == std::string::npos
             ? err
             : err.substr(at + label.size(), err.size() - at - label.size() - 1);
}

TEST(MeantLine, IsOneOfTheHintsOfAnError) {
  const auto expect_hint = [](const Pairs& pairs) {
    for (const auto& [typed, line] : pairs) EXPECT_EQ(hint(typed), line) << typed;
  };
  expect_hint(
      {{"convert Qwen3-8B out", "did you mean the Hub model? hfshard convert Qwen/Qwen3-8B out"},
       {"convert in Qwen3-8B",
        "hfshard: error [not_found]: no such file or directory\n  file    in\n"},
       {"convert unknown-8B out",
        "hfshard: error [not_found]: no such file or directory\n  file    unknown-8B\n"},
       {"convert Qwen/Qwen3-8B/ out --jobs 2",
        "did you mean the Hub model? hfshard convert Qwen/Qwen3-8B out --jobs 2"},
       {"fetch --nonsense gpt-oss-20b",
        "did you mean the Hub model? hfshard fetch --nonsense openai/gpt-oss-20b"},
       {"inspect Qwen3-8B --step x", "pass a number, such as --step 1"},
       {"convert a b --token t", "set HF_TOKEN in the environment, or log in once: hf auth login"},
       {"convert a b --Local_Dir=x",
        "fetch fills the Hub's cache; to fill another directory, run: hf download ORG/NAME "
        "--local-dir DIR"},
       {"convert a b --to=gguf",
        "pass --to safetensors, then run: python llama.cpp/convert_hf_to_gguf.py OUT"},
       {"convert a b --to GGUF",
        "pass --to safetensors, then run: python llama.cpp/convert_hf_to_gguf.py OUT"},
       {"convert a b --dtype fp8",
        "hfshard writes bf16, f16 and f32; quantize with the program that loads the output"},
       {"convert a b --to fp8", "pass one of orbax, dcp, safetensors, null"},
       {"convert a b --device", "leave it out; hfshard uses only CPUs"},
       {"convert a b --dtype auto --to gguf", "leave it out; hfshard keeps the stored dtype"},
       {"convert a b --tp 2 --device cuda", "leave it out; hfshard uses only CPUs"},
       {"validate", "did you mean: hfshard verify [OPTIONS] OUT [SOURCE]"},
       {"convert a b c --max_memory 1GiB", "did you mean --max-memory? see hfshard convert --help"},
       {"convert a b c --mesh fsdp16", "usage: hfshard convert [OPTIONS] SOURCE [OUT]"},
       {"convert a b --out c",
        "OUT is written without an option: hfshard convert [OPTIONS] SOURCE [OUT]"},
       {"-v -v", "see hfshard --help"},
       {"--verbose list", "see hfshard --help"},
       {"verify in", "hfshard: error [not_found]: no such file or directory\n  file    in\n"},
       {"verify in out", "hfshard: error [not_found]: no such file or directory\n  file    in\n"}});
}

}  // namespace
}  // namespace hfshard
