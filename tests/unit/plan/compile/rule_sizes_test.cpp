#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/tiny_rules.h"

namespace hfshard {
namespace {

TEST(CompileRules, ASizeThatNoKeyStatesIsTheRules) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("layers.0.up.weight").shape = {6, 7};
  EXPECT_EQ(catch_error([&] { compile_text(std::string(kTinyFamily), catalog); }).sentence(),
            "the rule needs 5, and the tensor has 6 (6x7), which is larger");
}

TEST(CompileRules, AKeyOfSeveralSizesIsNamedOnce) {
  std::string text = with_norm_rule(
      "[\"norm.weight [(cyc D)]\", \"norm.scale [cyc D]\", {\"axes\": {\"cyc\": null}}]");
  text.replace(text.find("\"cyc\": 2"), 8, "\"cyc\": \"hidden_size * 2\"");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {99};
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).sentence(),
            "config.json implies a size of 98 (hidden_size), and the tensor has 99 (99), which is "
            "larger");
}

TEST(CompileRules, ASizeOfZeroExplainsNoOther) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [(cyc D)]\", \"norm.scale [cyc D]\", {\"axes\": {\"cyc\": null}}]");
  EXPECT_EQ(
      catch_error([&] { compile_text(text, tiny_catalog(), {}, 0); }).sentence(),
      "config.json implies a size of 0 (hidden_size), and the tensor has 7 (7), which is larger");
}

}  // namespace
}  // namespace hfshard
