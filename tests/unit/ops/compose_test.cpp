#include "ops/compose.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/sizes.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

using reference::Pair;
using reference::pairs;
using reference::pick;
using reference::Random;

/// Returns the pairs through a common element, one by one.
std::vector<Pair> through(const IndexMap& first, const IndexMap& second) {
  std::multimap<std::uint64_t, std::uint64_t> leads;
  for (const Pair& pair : pairs(first)) leads.emplace(pair.second, pair.first);
  std::vector<Pair> out;
  for (const Pair& pair : pairs(second)) {
    const auto [begin, end] = leads.equal_range(pair.first);
    for (auto at = begin; at != end; ++at) out.emplace_back(at->second, pair.second);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns a rule's map seen from a tensor: each axis or a window of it, split or not. At the far
/// end, digits have another order, and some are reversed.
IndexMap random_map(Random& random, const Shape& middle, bool windows) {
  const Shape strides = middle.strides();
  IndexMap out;
  for (std::size_t axis = 0; axis < middle.rank(); ++axis) {
    std::uint64_t begin = 0;
    std::uint64_t extent = middle[axis];
    if (windows && pick(random, 0, 1) == 0) {
      begin = pick(random, 0, extent - 1);
      extent = pick(random, 1, extent - begin);
    }
    out.src_base += begin * strides[axis];
    auto step = static_cast<std::int64_t>(strides[axis]);
    for (const std::uint64_t factor : {2U, 3U}) {
      if (extent % factor != 0 || pick(random, 0, 1) == 0) continue;
      out.digits.push_back({factor, step, 0});
      extent /= factor;
      step *= static_cast<std::int64_t>(factor);
    }
    out.digits.push_back({extent, step, 0});
  }
  std::shuffle(out.digits.begin(), out.digits.end(), random);
  std::int64_t far = 1;
  for (Digit& digit : out.digits) {
    digit.dst_step = far;
    far *= static_cast<std::int64_t>(digit.extent);
    if (pick(random, 0, 3) != 0) continue;
    out.src_base += (digit.extent - 1) * static_cast<std::uint64_t>(digit.src_step);
    digit.src_step = -digit.src_step;
  }
  out.dst_base = pick(random, 0, 5);
  return out;
}

TEST(Compose, GoesThroughEveryElementThatBothHave) {
  Random random(20261123);
  std::size_t met = 0;
  for (int round = 0; round < cases(3000); ++round) {
    Shape middle;
    for (std::uint64_t left = pick(random, 1, 3); left > 0; --left)
      middle.push_back(pick(random, 1, 12));
    const IndexMap first = inverse(random_map(random, middle, true));
    IndexMap second = random_map(random, middle, true);
    if (pick(random, 0, 3) == 0) second.digits.push_back({3, 0, 1000});
    std::vector<IndexMap> found;
    compose(first, second, found);
    ASSERT_EQ(pairs(found), through(first, second)) << "round " << round;
    met += found.size();
  }
  EXPECT_GT(met, 1000U);
}

TEST(Compose, AppendsToWhatIsThere) {
  std::vector<IndexMap> found(1);
  compose(identity_map({6}), identity_map({6}), found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], IndexMap{});
  EXPECT_EQ(found[1], identity_map({6}));
}

TEST(Compose, StepsThatDivideEachOtherMakeOneMap) {
  // Heads of 2 x 64 with adjacent halves, and the same as one axis, at real sizes.
  const IndexMap halves{
      .digits = {
          {32, 128 * 4096, 128 * 4096}, {2, 4096, 64 * 4096}, {64, 2 * 4096, 4096}, {4096, 1, 1}}};
  const IndexMap kernel{.digits = {{4096, 4096, 1}, {4096, 1, 4096}}};
  std::vector<IndexMap> found;
  compose(halves, kernel, found);
  ASSERT_EQ(found.size(), 1U);
  const IndexMap expected{
      .digits = {{32, 128 * 4096, 128}, {2, 4096, 64}, {64, 2 * 4096, 1}, {4096, 1, 4096}}};
  EXPECT_EQ(found[0], normalize(expected));
  const std::uint64_t stack = 61;  // one layer of a stack
  const IndexMap layer{.src_base = 7 * 512, .digits = {{4096, stack * 512, 512}, {512, 1, 1}}};
  const IndexMap columns{.src_base = 256, .digits = {{4096, 512, 1}, {256, 1, 4096}}};
  compose(layer, columns, found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].src_base, 7 * 512 + 256U);
  EXPECT_EQ(found[1].count(), 4096U * 256U);
}

TEST(Compose, AWindowAcrossADigitIsCutAtItsEdges) {
  const IndexMap rows{.src_base = 0, .dst_base = 0, .digits = {{10, 7, 1}}};
  const IndexMap window{.src_base = 3, .dst_base = 0, .digits = {{2, 4, 100}, {4, 1, 1}}};
  std::vector<IndexMap> found;
  compose(rows, window, found);
  EXPECT_EQ(pairs(found), through(rows, window));
  EXPECT_LE(found.size(), 3U);
}

TEST(Compose, UnlikeStepsAreRefusedWhenTheyWouldBeTooMany) {
  const std::uint64_t n = std::uint64_t{1} << 20;
  const IndexMap by_three{.digits = {{n, 1, 3}, {3, std::int64_t(n), 1}}};
  const IndexMap by_two{.digits = {{n, 2, 1}, {2, 1, std::int64_t(n)}}};
  std::vector<IndexMap> found;
  const Error error = catch_error([&] { compose(by_three, by_two, found); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
}

TEST(Compose, NothingGoesThroughNothing) {
  std::vector<IndexMap> found;
  compose(IndexMap{.digits = {{0, 1, 1}}}, identity_map({3}), found);
  compose(identity_map({3}), IndexMap{.digits = {{0, 1, 1}}}, found);
  compose(identity_map({3}), IndexMap{.src_base = 3, .digits = {{3, 1, 1}}}, found);
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace hfshard
