#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "tool/tool.h"

namespace hfshard {

/// The output of one command and its exit status.
struct ToolRun {
  int status = 0;
  std::string out;
  std::string err;
  Json json() const { return parse_json(out, "stdout"); }
};

/// Returns a JSON text without blanks and with sorted keys, as commands print it.
inline std::string sorted(const std::string& json) {
  return dump_json(parse_json(json, "expected"));
}

/// Runs `hfshard arguments...` in the test's process. `limits`: RunOptions::limits.
inline ToolRun run_tool(std::initializer_list<std::string> arguments,
                        const Limits* limits = nullptr) {
  std::vector<const char*> argv{"hfshard"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ToolRun run;
  run.status = tool_main(static_cast<int>(argv.size()), argv.data(), limits);
  run.out = testing::internal::GetCapturedStdout();
  run.err = testing::internal::GetCapturedStderr();
  return run;
}

}  // namespace hfshard
