// The whole output of commands that read models of a hub.

#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/variables.h"
#include "tool/interrupt.h"
#include "tool/tool.h"
#include "unit/service/hub_model.h"
#include "unit/tool/run_tool.h"

#include "hfshard/error.h"

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
