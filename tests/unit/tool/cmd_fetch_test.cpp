// The whole output of commands that read models of a hub.

#include <initializer_list>
#include <optional>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/variables.h"
#include "unit/service/hub_model.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

class HubCommands : public testing::Test {
 protected:
  Variables variables_of(const OneAnswer& hub) const {
    return Variables({{"HF_ENDPOINT", hub.endpoint()},
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
  const Variables variables = variables_of(hub);
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

}  // namespace
}  // namespace hfshard
