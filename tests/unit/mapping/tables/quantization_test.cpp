#include "mapping/tables/quantization.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "mapping/resolve/bindings.h"

namespace hfshard {
namespace {

TEST(Quantization, PackedCodesAreFoundByTheNameOfTheWeight) {
  const std::set<std::string, std::less<>> stored{"a.weight_packed", "b.weight"};
  const auto has = [&](std::string_view name) { return stored.contains(name); };
  EXPECT_EQ(stored_as("a.weight", has), "a.weight_packed");
  EXPECT_EQ(stored_as("b.weight", has), "") << "it is called so itself";
  EXPECT_EQ(stored_as("a.bias", has), "");
  for (const DecodeRule& rule : quantization().decodes) {
    if (rule.as.empty()) continue;
    EXPECT_EQ(rule.value_name("a.weight_packed"), "a.weight");
    EXPECT_EQ(rule.stored_name("a.weight"), "a.weight_packed");
    EXPECT_EQ(rule.scale_name("a.weight_packed"), "a.weight_scale");
  }
}

TEST(Quantization, NamesWhatStandsBesideCodesAndWhatNothingDecodes) {
  EXPECT_NE(quantization().beside_codes("model.layers.0.self_attn.k_proj.k_scale"), nullptr);
  EXPECT_NE(quantization().beside_codes("a.input_global_scale"), nullptr);
  EXPECT_EQ(quantization().beside_codes("a.weight_scale"), nullptr);
  EXPECT_EQ(quantization().beside_codes("decoder_norm.scale"), nullptr);
  ASSERT_NE(quantization().undecoded_name("a.qweight"), nullptr);
  EXPECT_EQ(quantization().undecoded_name("a.weight"), nullptr);
  for (const UndecodedMethod& method : quantization().undecoded) {
    EXPECT_FALSE(method.what.empty());
    EXPECT_FALSE(method.way.empty()) << method.what;
    EXPECT_FALSE(method.methods.empty() && method.formats.empty() && method.names.empty())
        << method.what;
  }
}

// The names of groups aren't known.
TEST(Quantization, AnyIsTheFirstMemberThatHasTheRest) {
  const Json config = parse_json(
      R"({"groups": {"a": {"weights": {"bits": 4}}, "b": {"weights": {"size": 7}}, "c": {"weights": {"size": 8}}},
          "any": {"x": 1}})",
      "config.json");
  const MappingTable& table = table_of_codes();
  const Bindings bindings(table, config, {}, {});
  const auto value = [&](const char* text) { return Expr(text, "#").integer(bindings); };
  EXPECT_EQ(value("groups.any.weights.size"), 7);
  EXPECT_EQ(value("groups.any.weights.other ?? 3"), 3);
  EXPECT_EQ(value("any.x"), 1) << "a key of that name";
}

}  // namespace
}  // namespace hfshard
