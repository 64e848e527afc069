// The whole output of commands that read models of a hub.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/test_data.h"
#include "support/torch_checkpoint.h"
#include "support/variables.h"
#include "tool/interrupt.h"
#include "tool/tool.h"
#include "unit/service/hub_model.h"
#include "unit/tool/run_tool.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

class HubCommands : public testing::Test {
 protected:
  Variables variables_of(const std::string& endpoint) const {
    return Variables({{"HF_ENDPOINT", endpoint},
                      {"HF_HUB_CACHE", dir_ / "cache"},
                      {"HF_HUB_OFFLINE", std::nullopt},
                      {"TRANSFORMERS_OFFLINE", std::nullopt},
                      {"HF_TOKEN", std::nullopt},
                      {"HUGGING_FACE_HUB_TOKEN", std::nullopt},
                      {"HF_TOKEN_PATH", dir_ / "no token"},
                      {"HF_HUB_DOWNLOAD_TIMEOUT", "60"}});
  }
  std::string out_of(std::initializer_list<std::string> words) const {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return std::regex_replace(run.out, std::regex(dir_.path()), "DIR");
  }

  TempDir dir_;
  std::string snapshot_ = "DIR/cache/models--org--name/snapshots/" + kCommit;
};

TEST_F(HubCommands, FetchSaysWhatItDownloadedAndWhatWasThere) {
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"config.json", 0}, {"vocab.json", 0}, {"merges.txt", 0}});
  });
  const Variables variables = variables_of(hub.endpoint());
  EXPECT_EQ(out_of({"fetch", "org/name", "--include", "*.json", "--exclude", "vocab*"}),
            "cached    " + snapshot_ + "\nfetched   1 of 1 file, 0 B of 0 B\n");
  EXPECT_EQ(out_of({"fetch", "org/name"}),
            "cached    " + snapshot_ +
                "\ncomplete  3 files, 0 B: all were already here, with their sizes\n");
  EXPECT_EQ(out_of({"fetch", "org/name", "--quiet"}), "");
  EXPECT_EQ(out_of({"fetch", "org/name", "--json", "--quiet"}),
            sorted(R"({"bytes": 0, "command": "fetch", "commit": ")" + kCommit +
                   R"(", "fetched_bytes": 0, "fetched_files": 0, "files": 3, "model": "org/name",
                   "schema": 1, "snapshot": ")" +
                   snapshot_ + R"("})") +
                "\n");
}

using HubFiles = std::map<std::string, std::string>;

// Answers questions about a model with these files, and downloads of them. Several clients can ask.
void say_model(const HubFiles& files, const OneAnswer::Say& say) {
  const std::string closed = "Connection: close\r\n";
  const std::string& request = say.request();  // "GET /org/name/resolve/COMMIT/PATH HTTP/1.1"
  if (request.find("/resolve/") != std::string::npos) {
    const std::size_t begin = request.find(kCommitOfBusyHub) + kCommitOfBusyHub.size() + 1;
    say_range(files.at(request.substr(begin, request.find(" HTTP") - begin)), say);
    return;
  }
  if (request.find("/tree/") == std::string::npos) {
    say(json_answer(fmt::format(R"({{"id": "org/name", "sha": "{}"}})", kCommitOfBusyHub), closed));
    return;
  }
  std::vector<std::string> entries;
  for (const auto& [path, text] : files) {
    entries.push_back(fmt::format(
        R"({{"type": "file", "path": "{}", "size": {}, "oid": "{}", "lfs": {{"oid": "{}", "size": {}}}}})",
        path, text.size(), std::string(40, '0'), sha256_hex(text), text.size()));
  }
  say(json_answer("[" + join(entries, ",") + "]", closed));
}

TEST_F(HubCommands, FetchCountsTheBytesThatItDownloaded) {
  const HubFiles files{{"long.json", "[12345]"}, {"short.json", "[]"}};
  const OneAnswer hub([&](int /*number*/, const OneAnswer::Say& say) { say_model(files, say); });
  const Variables variables = variables_of(hub.endpoint());
  const std::string cached =
      "cached    DIR/cache/models--org--name/snapshots/" + kCommitOfBusyHub + "\n";
  EXPECT_EQ(out_of({"fetch", "org/name", "--include", "long.json"}),
            cached + "fetched   1 of 1 file, 7 B of 7 B\n");
  EXPECT_EQ(out_of({"fetch", "org/name"}), cached + "fetched   1 of 2 files, 2 B of 9 B\n");
  EXPECT_EQ(out_of({"fetch", "org/name"}),
            cached + "complete  2 files, 9 B: all were already here, with their sizes\n");
}

TEST_F(HubCommands, LinkCountsTheFilesThatItAwaits) {
  HubFiles files{{"config.json", read_text(test_data("oracle/qwen3/config.json"))}};
  const auto add = [&](const std::string& name, const std::string& tensor) {
    files[name] = SafetensorsBuilder().tensor(tensor, DType::u8, {100}).build();
    return files[name].size();
  };
  const std::size_t one = add("model-00001-of-00002.safetensors", "a");
  const std::size_t two = add("model-00002-of-00002.safetensors", "b");
  files["model.safetensors.index.json"] = index_json(
      {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  const OneAnswer hub([&](int /*number*/, const OneAnswer::Say& say) { say_model(files, say); });
  const Variables variables = variables_of(hub.endpoint());
  const std::string out =
      out_of({"link", "org/name", dir_ / "out", "--scheme", "hf", "--include", "*"});
  const std::string awaits =
      fmt::format("awaits    2 files ({} B) in the cache; the index points there\n", one + two);
  EXPECT_NE(out.find(awaits), std::string::npos) << out;
}

// The revision is that of A, and B has its own.
TEST_F(HubCommands, ARevisionOfDiffIsThatOfA) {
  const HubFiles files{
      {"config.json", "{}"},
      {"model.safetensors", SafetensorsBuilder().tensor("a", DType::u8, {4}).build()}};
  const OneAnswer hub([&](int /*number*/, const OneAnswer::Say& say) { say_model(files, say); });
  const Variables variables = variables_of(hub.endpoint());
  const ToolRun run =
      run_tool({"diff", "hf://org/name", "hf://org/name@v2", "--revision", "v1", "--quiet"});
  EXPECT_EQ(run.status, 0) << run.err;
  const ToolRun two =
      run_tool({"diff", "hf://org/name@v1", "hf://org/name", "--revision", "v2", "--quiet"});
  EXPECT_EQ(two.status, exit_status(ErrorCode::usage));
  EXPECT_NE(two.err.find("--revision \"v2\" and \"v1\" name two revisions"), std::string::npos)
      << two.err;
}

// A local run with the same steps lies in the directory that the command runs in.
TEST_F(HubCommands, ReshardOfStepsReadsEachOfThemFromTheHub) {
  HubFiles files;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(dir_ / "here");
  for (const char* step : {"step-2", "step-4"}) {
    for (const char* other : {"", "here/"}) {
      TorchCheckpoint torch;
      const std::string bytes = *other == 0 ? step : "others";
      torch.tensor("w", DType::u8, {6})
          .part({0}, {6}, bytes, false)
          .write(dir_ / (other + std::string(step)));
    }
    for (const std::string& name :
         {std::string(TorchCheckpoint::kDataFile), std::string(".metadata")}) {
      const std::string path = std::string(step) + "/" + name;
      files[path] = read_text(dir_ / path);
    }
  }
  const OneAnswer hub([&](int /*number*/, const OneAnswer::Say& say) { say_model(files, say); });
  const Variables variables = variables_of(hub.endpoint());
  const std::string out = dir_ / "out";
  std::filesystem::current_path(dir_ / "here");
  const ToolRun run = run_tool({"reshard", "hf://org/name", out, "--steps", "all"});
  std::filesystem::current_path(before);
  EXPECT_EQ(run.status, 0) << run.err;
  for (const std::string step : {"step-2", "step-4"}) {
    std::string written(6, '?');
    open(out + "/" + step).read_rows(0, 0, std::as_writable_bytes(std::span(written)));
    EXPECT_EQ(written, step);
  }
}

// Nobody answers, so the command ends by Ctrl-C or by its timeouts.
TEST_F(HubCommands, CtrlCEndsAWaitForTheHub) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeafPort hub(true);
  Variables variables = variables_of("http://" + hub.host());
  variables.set("HF_HUB_DOWNLOAD_TIMEOUT", "5");
  const std::string out = dir_ / "out";
  const auto interrupted = [&](std::vector<const char*> words) {
    watch_interrupts();
    std::raise(SIGINT);
    words.insert(words.begin(), "hfshard");
    words.push_back("--quiet");
    const int status = tool_main(static_cast<int>(words.size()), words.data());
    remove_tree(dir_.path());
    std::exit(status);
  };
  const char* const name = "hf://org/name";
  const std::vector<std::vector<const char*>> commands{
      {"convert", name, out.c_str()},
      {"convert", name, out.c_str(), "--keep-files"},
      {"link", name, out.c_str()},
      {"fetch", name},
      {"diff", name, "hf://org/other"}};
  for (const std::vector<const char*>& words : commands) {
    EXPECT_EXIT(interrupted(words), testing::ExitedWithCode(exit_status(ErrorCode::cancelled)),
                "^hfshard: error \\[cancelled\\]: interrupted(; completed files were kept\n.*)?\n$")
        << words[0];
  }
}

}  // namespace
}  // namespace hfshard
