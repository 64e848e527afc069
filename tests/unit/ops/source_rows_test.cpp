// Windows have whole rows, and aren't wider than necessary. Rows of transposed matrices become as
// short as necessary.

#include "ops/source_rows.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "support/sizes.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;

std::int64_t step(std::uint64_t value) { return static_cast<std::int64_t>(value); }

Leaf leaf_of(const Shape& shape) {
  Leaf out;
  out.name = "x";
  out.shape = shape;
  return out;
}

// A source with axes a and b * c (the row). The leaf has a, b and c in some order, joined or
// separate.
struct Case {
  Leaf leaf;
  Transfer transfer;
};

Case random_case(Random& random) {
  const std::uint64_t a = pick(random, 2, 6);
  const std::uint64_t b = pick(random, 2, 6);
  const std::uint64_t c = pick(random, 2, 6);
  Case out;
  out.transfer.source_shape = {a, b * c};
  out.transfer.sources = {0};
  const auto digits = [&](std::uint64_t to_a, std::uint64_t to_b, std::uint64_t to_c) {
    out.transfer.map.digits = {
        {a, step(b * c), step(to_a)}, {b, step(c), step(to_b)}, {c, 1, step(to_c)}};
  };
  switch (pick(random, 0, 4)) {
    case 0:  // transposed
      out.leaf = leaf_of({b * c, a});
      digits(1, c * a, a);
      break;
    case 1:  // unchanged
      out.leaf = leaf_of({a, b * c});
      digits(b * c, c, 1);
      break;
    case 2:  // [b, a, c]
      out.leaf = leaf_of({b, a, c});
      digits(c, a * c, 1);
      break;
    case 3:  // [c * b, a]: the row's faster part is the axis's slower
      out.leaf = leaf_of({c * b, a});
      digits(1, a, b * a);
      break;
    default:  // [a * b, c]
      out.leaf = leaf_of({a * b, c});
      digits(b * c, c, 1);
  }
  return out;
}

// Returns the leaf coordinates of every element of each row.
std::map<std::uint64_t, std::vector<std::vector<std::uint64_t>>> places_of_rows(const Case& made) {
  std::map<std::uint64_t, std::vector<std::vector<std::uint64_t>>> out;
  const Shape strides = made.leaf.shape.strides();
  const DigitList& digits = made.transfer.map.digits;
  for (std::uint64_t i = 0; i < digits[0].extent; ++i) {
    for (std::uint64_t j = 0; j < digits[1].extent; ++j) {
      for (std::uint64_t k = 0; k < digits[2].extent; ++k) {
        const auto at = [&](auto side) {
          return static_cast<std::uint64_t>(step(i) * digits[0].*side + step(j) * digits[1].*side +
                                            step(k) * digits[2].*side);
        };
        std::vector<std::uint64_t> place;
        for (std::size_t d = 0; d < strides.rank(); ++d)
          place.push_back(at(&Digit::dst_step) / strides[d] % made.leaf.shape[d]);
        out[at(&Digit::src_step) / row_length(made.transfer)].push_back(place);
      }
    }
  }
  return out;
}

TEST(SourceRows, AWindowHoldsWholeRowsAndNoSmallerOneDoes) {
  Random random(20261123);
  for (int i = 0; i < cases(2000); ++i) {
    Case made = random_case(random);
    const std::uint64_t faster = made.transfer.map.digits[2].extent;
    if (pick(random, 0, 1) == 1)
      made.transfer.row = static_cast<std::uint32_t>(faster);  // of c elements
    const Shape window = row_window(made.leaf, made.transfer);
    const auto rows = places_of_rows(made);
    for (std::size_t d = 0; d < window.rank(); ++d) {
      // Multiples of `span` never split a row.
      const auto holds = [&](std::uint64_t span) {
        for (const auto& [row, places] : rows) {
          for (const auto& place : places) {
            if (place[d] / span != places.front()[d] / span) return false;
          }
        }
        return true;
      };
      EXPECT_TRUE(holds(window[d])) << "case " << i;
      for (std::uint64_t less = 1; less < window[d]; ++less) {
        if (made.leaf.shape[d] % less == 0) {
          EXPECT_FALSE(holds(less)) << "case " << i;
        }
      }
    }
  }
}

CompiledModel one(const Leaf& leaf, const Transfer& transfer) {
  CompiledModel out;
  out.leaves = {leaf};
  out.transfers = {transfer};
  return out;
}

// A source of [60, 84] whose leaf is [84, 60], bf16. A row feeds all of its 10080 bytes.
Case turned() {
  Case out;
  out.leaf = leaf_of({84, 60});
  out.transfer.source_shape = {60, 84};
  out.transfer.sources = {0};
  out.transfer.map.digits = {{60, 84, 1}, {84, 1, 60}};
  return out;
}

TEST(SourceRows, RowsAreAsShortAsTheyMust) {
  const Case made = turned();
  const auto row_for = [&](std::uint64_t most) {
    CompiledModel model = one(made.leaf, made.transfer);
    shorten_rows(model, most);
    return model.transfers[0].row;
  };
  EXPECT_EQ(row_for(10080), 0U);  // fits as it is
  EXPECT_EQ(row_for(10079), 42U);
  EXPECT_EQ(row_for(5040), 42U);
  EXPECT_EQ(row_for(2000), 14U);  // six parts, since 5 doesn't divide 84
  EXPECT_EQ(row_for(1), 1U);
  Transfer shorter = made.transfer;
  shorter.row = row_for(2000);
  EXPECT_EQ(row_window(made.leaf, shorter), (Shape{14, 1}));
  EXPECT_EQ(row_length(shorter), 14U);
}

TEST(SourceRows, RowsThatFeedWhatLiesTogetherStayWhole) {
  CompiledModel model;
  model.leaves = {leaf_of({60, 84}), leaf_of({5040})};
  Transfer same;
  same.source_shape = {60, 84};
  same.sources = {0};
  same.map.digits = {{60, 84, 84}, {84, 1, 1}};
  Transfer flat = same;
  flat.target = 1;
  flat.source_shape = {5040};
  flat.map.digits = {{5040, 1, 1}};
  model.transfers = {same, flat};
  shorten_rows(model, 200);
  EXPECT_EQ(model.transfers[0].row, 0U);  // 168 bytes
  EXPECT_EQ(model.transfers[1].row, 0U);  // a 1-d tensor is hashed in runs
}

// The rule takes half of each row.
TEST(SourceRows, ARowThatIsReadInPartStaysWhole) {
  Case made = turned();
  made.leaf.shape = {42, 60};
  made.transfer.map.digits = {{60, 84, 1}, {42, 1, 60}};
  CompiledModel model = one(made.leaf, made.transfer);
  shorten_rows(model, 1000);
  EXPECT_EQ(model.transfers[0].row, 0U);
}

TEST(SourceRows, AMapIsSplitAtItsOwnRows) {
  Case made = turned();
  made.transfer.row = 21;
  const IndexMap map = split_at_rows(made.transfer);
  std::set<std::uint64_t> steps;
  for (const Digit& digit : map.digits) steps.insert(static_cast<std::uint64_t>(digit.src_step));
  EXPECT_EQ(steps, (std::set<std::uint64_t>{1, 21, 84}));
}

TEST(SourceRows, AnEmptyTensorKeepsItsWindow) {
  const Leaf leaf{"w", DType::f32, {0, 4}, {}, {}};
  Shape window{1, 1};
  close_misplaced(leaf, Transfer{}, window);
  EXPECT_EQ(window, (Shape{1, 1}));
}

}  // namespace
}  // namespace hfshard
