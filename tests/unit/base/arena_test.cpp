#include "base/arena.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kPage = 4096;

TEST(Arena, BlocksDoNotOverlapAndComeBack) {
  Arena arena(8 * kPage);
  {
    Arena::Block a = arena.take(3 * kPage);
    Arena::Block b = arena.take(1);
    EXPECT_EQ(b.bytes().size(), kPage);
    std::memset(a.bytes().data(), 1, a.bytes().size());
    std::memset(b.bytes().data(), 2, b.bytes().size());
    EXPECT_EQ(a.bytes().back(), std::byte{1});
    EXPECT_EQ(b.bytes().front(), std::byte{2});
  }
  EXPECT_EQ(arena.take(8 * kPage).bytes().size(), 8 * kPage);  // coalesced again
  (void)arena.take(kPage);
  EXPECT_EQ(arena.peak_bytes(), 8 * kPage) << "the most, not the last";
}

TEST(Arena, ABlockThatIsMovedToItselfStays) {
  Arena arena(2 * kPage);
  Arena::Block block = arena.take(kPage);
  Arena::Block& same = block;
  block = std::move(same);
  EXPECT_EQ(block.bytes().size(), kPage);
  EXPECT_NE(arena.take(kPage).bytes().data(), block.bytes().data());
}

// So a run touches no more pages than it held at one time, even with a large arena.
TEST(Arena, FreedMemoryIsUsedBeforeFreshMemory) {
  Arena arena(64 * kPage);
  const std::byte* const begin = arena.take(kPage).bytes().data();
  Arena::Block a = arena.take(2 * kPage);
  Arena::Block b = arena.take(3 * kPage);
  for (int round = 0; round < 100; ++round) {
    a.release();  // the older one, so free memory is split
    a = arena.take(2 * kPage);
    b.release();
    b = arena.take(round % 2 == 0 ? 1 : 3 * kPage);
    for (const Arena::Block* block : {&a, &b}) {
      EXPECT_LE(block->bytes().data() + block->bytes().size(), begin + 5 * kPage) << round;
    }
  }
  EXPECT_EQ(arena.peak_bytes(), 5 * kPage);
}

TEST(Arena, AReleasedBlockIsEmptyAndIsGivenBackOnce) {
  Arena arena(4 * kPage);
  Arena::Block block = arena.take(kPage);
  block.release();
  EXPECT_EQ(block.bytes().data(), nullptr);
  EXPECT_TRUE(block.bytes().empty());
  const Arena::Block next = arena.take(4 * kPage);
  block.release();
  EXPECT_TRUE(arena.try_take(1).bytes().empty());
}

TEST(Arena, WaitsUntilTheWholeNeedIsFree) {
  Arena arena(4 * kPage);
  Arena::Block held = arena.take(3 * kPage);
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    const Arena::Block block = arena.take(2 * kPage);
    got.store(true);
  });
  EXPECT_FALSE(got.load());
  held.release();
  waiter.join();
  EXPECT_TRUE(got.load());
}

TEST(Arena, CloseEndsAWait) {
  Arena arena(kPage);
  const Arena::Block held = arena.take(kPage);
  std::thread closer([&] { arena.close(); });
  const Error error = catch_error([&] { arena.take(kPage); });
  closer.join();
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
}

// The condition is checked at once, and when memory is released. With nothing taken, it doesn't
// wait.
TEST(Arena, WaitsForWhatOthersGiveBack) {
  Arena arena(4 * kPage);
  EXPECT_TRUE(arena.wait_for([] { return true; }));
  EXPECT_FALSE(arena.wait_for([] { return false; }));
  Arena::Block held = arena.take(kPage);
  std::atomic<int> asked{0};
  std::thread waiter([&] { EXPECT_TRUE(arena.wait_for([&] { return ++asked == 2; })); });
  while (asked == 0) std::this_thread::yield();
  Arena::Block more = arena.take(kPage);
  held.release();
  waiter.join();
  EXPECT_EQ(asked, 2);
  arena.close();
  EXPECT_EQ(catch_error([&] { arena.wait_for([] { return true; }); }).code(), ErrorCode::cancelled);
}

TEST(Arena, MoreThanItHoldsIsOurBug) {
  Arena arena(kPage);
  EXPECT_EQ(catch_error([&] { arena.take(2 * kPage); }).code(), ErrorCode::internal);
}

TEST(Arena, SizesAreWholePagesAndAtLeastOne) {
  EXPECT_EQ(Arena(0).size_bytes(), kPage);
  EXPECT_EQ(Arena(kPage + 1).size_bytes(), 2 * kPage);
  Arena arena(2 * kPage);
  EXPECT_EQ(arena.take(0).bytes().size(), kPage);
  EXPECT_EQ(arena.try_take(0).bytes().size(), kPage);
  EXPECT_EQ(arena.try_take(kPage + 1).bytes().size(), 2 * kPage);
  EXPECT_TRUE(arena.try_take(2 * kPage + 1).bytes().empty());
  EXPECT_EQ(arena.peak_bytes(), 2 * kPage);
}

TEST(Arena, ABlockThatBecomesAnotherGivesItsOwnMemoryBack) {
  Arena arena(2 * kPage);
  Arena::Block first = arena.take(kPage);
  Arena::Block second = arena.take(kPage);
  const std::byte* const begin = second.bytes().data();
  first = std::move(second);
  EXPECT_EQ(first.bytes().data(), begin);
  const Arena::Block third = arena.try_take(kPage);
  EXPECT_EQ(third.bytes().size(), kPage);
  EXPECT_TRUE(arena.try_take(kPage).bytes().empty());
}

TEST(Arena, MemoryThatTheSystemRefusesIsALimit) {
  const Error error = catch_error([] { const Arena arena(std::uint64_t{1} << 62); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(), "the system refuses 4 EiB of memory for buffers");
  EXPECT_EQ(error.hint_text(), "lower --max-memory, or raise the limit (ulimit -d, cgroup)");
}

}  // namespace
}  // namespace hfshard
