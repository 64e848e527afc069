#include "run/check/reading.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

// A leaf and each of its chunks can have several.
TEST(Findings, AreSortedAndThoseThatSayTheSameAreOne) {
  Findings findings;
  for (const Difference& item : std::vector<Difference>{{"b", "", "", "missing"},
                                                        {"a", "0, 1", "t", "torn"},
                                                        {"a", "0, 1", "s", "bent"},
                                                        {"a", "0, 1", "s", "torn"},
                                                        {"a", "", "", "differs at [7]"},
                                                        {"a", "", "", "differs at [2]"},
                                                        {"a", "0, 1", "s", "bent"},
                                                        {"b", "", "", "missing"}})
    findings.add(item);
  std::vector<std::string> said;
  for (const Difference& item : findings.take())
    said.push_back(item.leaf + "|" + item.chunk + "|" + item.tensor + "|" + item.what);
  EXPECT_EQ(said,
            (std::vector<std::string>{"a|||differs at [2]", "a|||differs at [7]", "a|0, 1|s|bent",
                                      "a|0, 1|s|torn", "a|0, 1|t|torn", "b|||missing"}));
}

}  // namespace
}  // namespace hfshard
