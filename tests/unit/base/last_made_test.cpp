#include "base/last_made.h"

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(LastMade, MakesAValueAgainOnlyForAnotherKey) {
  LastMade<int, std::string> kept;
  int made = 0;
  const auto text = [&](int key) {
    return kept.get(key, [&] {
      ++made;
      return std::to_string(key);
    });
  };
  EXPECT_EQ(text(1), "1");
  EXPECT_EQ(text(1), "1");
  EXPECT_EQ(made, 1);
  EXPECT_EQ(text(2), "2");
  EXPECT_EQ(text(1), "1");
  EXPECT_EQ(made, 3);
}

TEST(LastMade, AFailureKeepsWhatThereIs) {
  LastMade<int, int> kept;
  EXPECT_EQ(kept.get(1, [] { return 10; }), 10);
  EXPECT_THROW(kept.get(2, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(kept.get(1, [] { return 11; }), 10);
}

TEST(LastMade, ThreadsGetTheValuesOfTheirKeys) {
  LastMade<int, std::string> kept;
  std::vector<std::thread> threads;
  for (int key = 0; key < 4; ++key) {
    threads.emplace_back([&kept, key] {
      for (int i = 0; i < 200; ++i)
        EXPECT_EQ(kept.get(key, [&] { return std::to_string(key); }), std::to_string(key));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hfshard
