// Several concurrent calls of the library in one process.

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Calls a function when the run has its memory, and when it writes its first bytes.
class Hooked final : public Reporter {
 public:
  explicit Hooked(std::function<void()> begun) : begun_(std::move(begun)) {}
  void started(std::uint64_t /*total*/, std::uint64_t /*done*/) override { begun_(); }

 private:
  std::function<void()> begun_;
};

class Together : public testing::Test {
 protected:
  void SetUp() override {
    ExampleOptions options;
    options.family = "qwen3";
    options.out = source_;
    Reporter quiet;
    write_example(options, quiet);
  }
  RunOptions run_to(const std::string& out) const {
    RunOptions run;
    run.out = dir_ / out;
    run.jobs = 2;
    return run;
  }

  TempDir dir_;
  std::string source_ = dir_ / "source";
  Reporter quiet_;
};

TEST_F(Together, AnotherRunOfThisProcessOnTheSameOutputIsRefused) {
  std::optional<ErrorCode> found;
  Hooked first([&] {
    for (const bool resume : {false, true}) {
      RunOptions again = run_to("out");
      again.resume = resume;
      const Error error = catch_error([&] { convert(source_, {}, again, quiet_); });
      EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
    }
    found = catch_error([&] { clean(dir_ / "out"); }).code();
  });
  EXPECT_TRUE(convert(source_, {}, run_to("out"), first).run.published);
  EXPECT_EQ(found, ErrorCode::conflict);
  EXPECT_TRUE(verify(dir_ / "out", source_, run_to(""), quiet_).differences.empty());
}

TEST_F(Together, OneWorkerTwiceIsHarmlessAndTheOthersAreAwaited) {
  RunOptions run = run_to("out");
  run.workers = 2;
  Hooked first([&] { convert(source_, {}, run, quiet_); });
  convert(source_, {}, run, first);
  EXPECT_EQ(catch_error([&] { finalize(run_to("out"), quiet_); }).code(), ErrorCode::conflict);
  run.worker = 1;
  convert(source_, {}, run, quiet_);
  EXPECT_TRUE(finalize(run_to("out"), quiet_).run.published);
}

// A run within a run. Each has its own threads and memory, so the inner one ends.
TEST_F(Together, RunsWithOtherThreadsAndBudgetsMakeTheSame) {
  const std::string wanted = convert(source_, {}, run_to("alone"), quiet_).run.root_digest;
  std::string inner;
  Hooked outer([&] {
    RunOptions run = run_to("inner");
    run.jobs = 7;
    run.max_memory_bytes = std::uint64_t{256} << 20;
    inner = convert(source_, {}, run, quiet_).run.root_digest;
  });
  RunOptions run = run_to("outer");
  run.jobs = 1;
  run.io_threads = 0;
  run.max_memory_bytes = std::uint64_t{40} << 20;
  EXPECT_EQ(convert(source_, {}, run, outer).run.root_digest, wanted);
  EXPECT_EQ(inner, wanted);
}

TEST_F(Together, ManyAtOnceMakeTheSame) {
  const std::string wanted = convert(source_, {}, run_to("alone"), quiet_).run.root_digest;
  std::vector<std::future<std::string>> runs;
  for (int i = 0; i < 6; ++i) {
    runs.push_back(std::async(std::launch::async, [&, i] {
      RunOptions run = run_to("out" + std::to_string(i));
      run.jobs = static_cast<unsigned>(i % 4 + 1);
      Reporter quiet;
      const std::string root = convert(source_, {}, run, quiet).run.root_digest;
      EXPECT_TRUE(verify(run.out, source_, run, quiet).differences.empty());
      return root;
    }));
  }
  for (auto& run : runs) EXPECT_EQ(run.get(), wanted);
}

}  // namespace
}  // namespace hfshard
