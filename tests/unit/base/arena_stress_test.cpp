// Many threads take and release memory. No page ever has two owners, and no block is outside the
// arena.

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/arena.h"

namespace hfshard {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPages = 5;
constexpr unsigned kThreads = 4;
constexpr unsigned kRounds = 5000;

TEST(ArenaStress, EveryPageHasOneOwner) {
  Arena arena(kPages * kPageBytes);
  const std::byte* const begin = arena.take(arena.size_bytes()).bytes().data();
  std::array<std::atomic<unsigned>, kPages> owners{};
  std::atomic<unsigned> faults = 0;
  const auto work = [&](unsigned own) {
    for (unsigned round = 0; round < kRounds && faults == 0; ++round) {
      const std::size_t pages = 1 + (round * 7 + own * 3) % 3;
      const Arena::Block block = arena.take(pages * kPageBytes);
      const auto first = static_cast<std::size_t>(block.bytes().data() - begin) / kPageBytes;
      for (std::size_t page = first; page < first + pages; ++page) {
        faults += page >= kPages || owners[page].exchange(own) != 0;
        if (page >= kPages) return;
      }
      std::this_thread::yield();
      for (std::size_t page = first; page < first + pages; ++page) owners[page] = 0;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned own = 1; own <= kThreads; ++own) threads.emplace_back(work, own);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 0U);
  EXPECT_LE(arena.peak_bytes(), arena.size_bytes());
}

}  // namespace
}  // namespace hfshard
