#include "mapping/tables/config_keys.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mapping/tables/table.h"
#include "unit/mapping/tiny_family.h"

namespace hfshard {
namespace {

TEST(SpelledOut, AFormulaInAFormulaHasParentheses) {
  const MappingTable table =
      load_table(tiny_file(tiny_family_with("\"F\": 5", "\"F\": \"D - 2\"")));
  EXPECT_EQ(spelled_out(table, "F * 3"), "(hidden_size - 2) * 3");
  EXPECT_EQ(spelled_out(table, "D * 3"), "hidden_size * 3");
}

// Each dim is named by the one before it.
TEST(SpelledOut, EightDimsDeep) {
  const auto spelled = [](int last) {
    std::string dims = R"("F": 5)";
    for (int i = 0; i < last; ++i) dims += fmt::format(R"(, "d{}": "d{}")", i, i + 1);
    dims += fmt::format(R"(, "d{}": "width")", last);
    return spelled_out(load_table(tiny_file(tiny_family_with(R"("F": 5)", dims))), "d0");
  };
  EXPECT_EQ(spelled(7), "width");
  EXPECT_EQ(spelled(8), "d8");
  EXPECT_EQ(spelled(12), "d8");
}

TEST(InputsOf, ANameThatIsNoDimHasNoKeys) {
  const MappingTable table = load_table(tiny_file(kTinyFamily));
  EXPECT_EQ(keys_text(inputs_of(table, "D")), "hidden_size of config.json");
  EXPECT_EQ(keys_text(inputs_of(table, "l")), "");
}

TEST(InputsOf, AListOfTheConfigIsAKey) {
  const MappingTable table = load_table(
      tiny_file(tiny_family_with("\"F\": 5", "\"F\": 5, \"G\": \"length(layer_types) + D\"")));
  EXPECT_EQ(keys_text(inputs_of(table, "G")), "hidden_size, layer_types of config.json");
}

}  // namespace
}  // namespace hfshard
