#include "mapping/tables/config_keys.h"

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

}  // namespace
}  // namespace hfshard
