#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

MappingOptions hf() {
  MappingOptions options;
  options.scheme = "hf";
  return options;
}

TEST(CompileHf, KeepsNamesShapesAndDtypes) {
  FakeCatalog catalog;
  catalog.add("a.b.weight", {3, 4}, DType::f8_e4m3).add("a.b.bias", {0}).add("scalar", {});
  const CompiledModel model = compile_model(catalog, hf());
  EXPECT_EQ(model.family, "hf");
  EXPECT_EQ(model.rules.size(), 1U);
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[0].name, "a.b.bias");
  EXPECT_EQ(model.leaves[1].name, "a.b.weight");
  EXPECT_EQ(model.leaves[1].shape, (Shape{3, 4}));
  EXPECT_EQ(model.leaves[1].dtype, DType::f8_e4m3);
  EXPECT_EQ(model.leaves[1].axis(1), "");
  EXPECT_FALSE(model.leaves[1].is_stacked(0));
  EXPECT_EQ(model.leaves[2].shape.rank(), 0U);
  EXPECT_EQ(model.transfers[1].map.digits, (DigitList{{3, 4, 4}, {4, 1, 1}}));
}

TEST(CompileHf, ANameThatIsThePrefixOfAnotherIsRefused) {
  FakeCatalog catalog;
  catalog.add("a.b", {3}).add("a.b-x", {3}).add("a.b.c", {3});
  const Error error = catch_error([&] { compile_model(catalog, hf()); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "a.b");
  MappingOptions options = hf();
  options.exclude = {"a.b"};
  EXPECT_EQ(compile_model(catalog, options).leaves.size(), 2U);
  EXPECT_NO_THROW(compile_model(FakeCatalog().add("a.b", {3}).add("a.bc.d", {3}), hf()));
}

TEST(CompileHf, NamesThatAreNoPathsAreRefused) {
  for (const char* name : {"a..b", ".a", "a.", "", "a/b.c"}) {
    SCOPED_TRACE(name);
    const Error error = catch_error([&] { compile_model(FakeCatalog().add(name, {3}), hf()); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), name);
  }
}

TEST(CompileHf, TakesNoOptionsAndNeedsNoConfig) {
  MappingOptions options = hf();
  options.options["vocab"] = "3";
  EXPECT_EQ(catch_error([&] { compile_model(FakeCatalog().add("a", {3}), options); }).code(),
            ErrorCode::usage);
  EXPECT_EQ(compile_model(FakeCatalog().add("a", {3}), hf()).leaves.size(), 1U);
}

TEST(CompileHf, AGlobThatMatchesNothingAndNothingLeftAreErrors) {
  const auto code = [](const std::vector<std::string>& include,
                       const std::vector<std::string>& exclude) {
    MappingOptions options = hf();
    options.include = include;
    options.exclude = exclude;
    return catch_error([&] { compile_model(FakeCatalog().add("aa", {3}).add("b", {3}), options); })
        .code();
  };
  EXPECT_EQ(code({"a*", "c*"}, {}), ErrorCode::usage);
  EXPECT_EQ(code({}, {"aa", "bb"}), ErrorCode::usage);
  EXPECT_EQ(code({}, {"*"}), ErrorCode::bad_input);
  EXPECT_EQ(code({"a*"}, {"aa"}), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { compile_model(FakeCatalog(), hf()); }).code(), ErrorCode::bad_input);
}

TEST(CompileHf, ExcludedTensorsAreNamedDrops) {
  MappingOptions options = hf();
  options.include = {"a*"};
  options.exclude = {"ab"};
  const CompiledModel model =
      compile_model(FakeCatalog().add("aa", {3}).add("ab", {3}).add("b", {3}), options);
  EXPECT_EQ(model.leaves.size(), 1U);
  ASSERT_EQ(model.drops.size(), 2U);
  EXPECT_EQ(model.drops[0].why, "--exclude \"ab\"");
  EXPECT_EQ(model.drops[1].why, "not in --include");
}

}  // namespace
}  // namespace hfshard
