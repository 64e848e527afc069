#include "mapping/language/pattern.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/language/name_template.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class Dims final : public DimScope {
 public:
  ExprValue lookup(const std::string& name) const override {
    const auto found = extents.find(name);
    if (found == extents.end()) return Absent{"no " + name};
    return static_cast<std::int64_t>(found->second);
  }
  bool tensor_exists(std::string_view) const override { return false; }
  ExprValue tensor_extent(std::string_view, std::size_t) const override {
    return Absent{"no tensors"};
  }
  std::int64_t length(const std::string&) const override { return 0; }
  bool is_stated(const std::string& /*path*/) const override { return false; }
  std::uint64_t extent(const std::string& dim) const override { return extents.at(dim); }

  std::map<std::string, std::uint64_t> extents = {{"D", 7},
                                                  {"H", 3},
                                                  {"h", 4},
                                                  {"F", 5},
                                                  {"V", 11},
                                                  {"r", 2},
                                                  {"K", 6},
                                                  {"Vm", 13},
                                                  {"zero", 0},
                                                  {"l", 9},
                                                  {"wide", 1ULL << 32},
                                                  {"n_k", 8}};
};

LaidOutPattern laid_out(const std::string& text, std::vector<std::uint64_t> stack = {},
                        std::size_t at = 1) {
  return lay_out(parse_pattern(text, "p"), Dims(), stack, at, "p");
}

// Returns the offset of the element at these positions of the walks.
std::uint64_t offset(const LaidOutPattern& layout, const std::map<std::string, std::uint64_t>& at) {
  std::uint64_t out = layout.base;
  for (const Walk& walk : layout.walks) out += at.at(walk.dim) * walk.step;
  return out;
}

TEST(Pattern, APlainShapeHasRowMajorSteps) {
  const LaidOutPattern layout = laid_out("[D F h]");
  EXPECT_EQ(layout.shape, (Shape{7, 5, 4}));
  EXPECT_EQ(laid_out("[n_k D]").shape, (Shape{8, 7}));
  EXPECT_EQ(offset(layout, {{"D", 2}, {"F", 3}, {"h", 1}}), 2U * 20 + 3 * 4 + 1);
}

TEST(Pattern, AProductIsOneAxisWithSeveralWalks) {
  const LaidOutPattern layout = laid_out("[(H h) D]");
  EXPECT_EQ(layout.shape, (Shape{12, 7}));
  EXPECT_EQ(offset(layout, {{"H", 2}, {"h", 3}, {"D", 5}}), (2U * 4 + 3) * 7 + 5);
}

TEST(Pattern, ProductsNest) {
  const LaidOutPattern layout = laid_out("[(K (r h)) D]");
  EXPECT_EQ(layout.shape, (Shape{48, 7}));
  EXPECT_EQ(offset(layout, {{"K", 5}, {"r", 1}, {"h", 3}, {"D", 6}}),
            ((5U * 2 + 1) * 4 + 3) * 7 + 6);
}

TEST(Pattern, AFixedIndexMovesTheBase) {
  const LaidOutPattern layout = laid_out("[D (F 1/2)]");
  EXPECT_EQ(layout.shape, (Shape{7, 10}));
  EXPECT_EQ(offset(layout, {{"D", 3}, {"F", 4}}), 3U * 10 + 4 * 2 + 1);
  EXPECT_EQ(laid_out("[2/3]").base, 2U);
}

TEST(Pattern, AWindowIsAPartOfALongerAxis) {
  const LaidOutPattern layout = laid_out("[V@0:Vm D]");
  EXPECT_EQ(layout.shape, (Shape{13, 7}));
  EXPECT_EQ(layout.base, 0U);
  const LaidOutPattern second = laid_out("[D F@F:2*F]");
  EXPECT_EQ(second.shape, (Shape{7, 10}));
  EXPECT_EQ(offset(second, {{"D", 1}, {"F", 2}}), 10U + 5 + 2);
}

TEST(Pattern, AWindowInAProductSplitsEachOuterIndex) {
  // The q, k, v of each of the K groups are together: r query heads, one key head, one value head.
  const LaidOutPattern query = laid_out("[(K (r h)@0:(r+2)*h) D]");
  EXPECT_EQ(query.shape, (Shape{6 * 16, 7}));
  EXPECT_EQ(offset(query, {{"K", 2}, {"r", 1}, {"h", 3}, {"D", 4}}), (2U * 16 + 1 * 4 + 3) * 7 + 4);
  const LaidOutPattern key = laid_out("[(K h@r*h:(r+2)*h) D]");
  EXPECT_EQ(offset(key, {{"K", 2}, {"h", 3}, {"D", 4}}), (2U * 16 + 8 + 3) * 7 + 4);
}

TEST(Pattern, StackAxesAreInserted) {
  const LaidOutPattern layout = laid_out("[D H h]", {9});
  EXPECT_EQ(layout.shape, (Shape{7, 9, 3, 4}));
  EXPECT_EQ(layout.stack_steps, (std::vector<std::uint64_t>{12}));
  EXPECT_EQ(offset(layout, {{"D", 1}, {"H", 2}, {"h", 3}}), 108U + 2 * 4 + 3);
  const LaidOutPattern two = laid_out("[D F]", {2, 5});
  EXPECT_EQ(two.shape, (Shape{7, 2, 5, 5}));
  EXPECT_EQ(two.stack_steps, (std::vector<std::uint64_t>{25, 5}));
  EXPECT_EQ(laid_out("[D]", {9}).shape, (Shape{7, 9}));
  EXPECT_EQ(laid_out("[]", {9}).shape, (Shape{9}));
}

TEST(Pattern, ScalarsAndEmptyAxesAreLegal) {
  EXPECT_EQ(laid_out("[]").shape.rank(), 0U);
  EXPECT_EQ(laid_out("[zero D]").shape, (Shape{0, 7}));
  EXPECT_TRUE(parse_pattern("[*]", "p").whole);
}

TEST(Pattern, RefusesWhatDoesNotParse) {
  for (const char* text : {"", "D", "[D", "[D] ", "[(D]", "[()]", "[D@0]", "[D@0:]", "[V@0 :Vm]",
                           "[2/2]", "[1/]", "[D D]", "[(D h) D]", "[**]", "[D,F]"}) {
    SCOPED_TRACE(text);
    const Error error = catch_error([&] { parse_pattern(text, "f.json#/r"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.rule(), "f.json#/r");
  }
}

TEST(Pattern, RefusesAWindowOutsideItsAxis) {
  EXPECT_EQ(catch_error([] { laid_out("[Vm@0:V]"); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { laid_out("[V@3:Vm]"); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { laid_out("[V@0-1:Vm]"); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { laid_out("[F@0:D-V D]"); }).sentence(),
            "window \"F@0:D-V\" of 5 at 0 passes its axis of -4");
}

TEST(Pattern, RefusesASizeBeyond64Bits) {
  const Error product = catch_error([] { laid_out("[D (wide 0/4294967296)]"); });
  EXPECT_EQ(product.sentence(), "the size \"(wide 0/4294967296)\" doesn't fit in 64 bits");
  EXPECT_EQ(product.code(), ErrorCode::bad_input);
  EXPECT_EQ(product.rule(), "p");
}

TEST(Pattern, IsSpelledOut) {
  for (const char* text : {"D", "1/3", "(H h)", "(K (r h)@0:(r+2)*h 0/2)", "V@0:Vm"})
    EXPECT_EQ(to_text(parse_pattern(std::string("[") + text + "]", "p").axes.at(0)), text);
}

TEST(Pattern, ProductsNestUpToALimit) {
  const auto nested = [](std::size_t count) {
    return "[" + std::string(count, '(') + "D" + std::string(count, ')') + "]";
  };
  EXPECT_EQ(laid_out(nested(7)).shape, (Shape{7}));
  EXPECT_NE(catch_error([&] { laid_out(nested(8)); }).sentence().find("a shallower nesting"),
            std::string::npos);
  EXPECT_EQ(laid_out("[(D F h H r K Vm l)]").shape.rank(), 1U);  // siblings don't nest
}

TEST(NameTemplate, EvaluatesItsExpressions) {
  EXPECT_EQ(NameTemplate("layers_{l % 2}.mlp.{l}.w", "p").name(Dims()), "layers_1.mlp.9.w");
  EXPECT_EQ(NameTemplate("model.norm", "p").name(Dims()), "model.norm");
  EXPECT_EQ(NameTemplate("", "p").name(Dims()), "");
  EXPECT_EQ(NameTemplate("{l}", "p").name(Dims()), "9");
}

TEST(NameTemplate, RefusesUnbalancedBraces) {
  for (const char* text : {"a{l", "a}b", "a{}"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(catch_error([&] { NameTemplate(text, "p"); }).code(), ErrorCode::bad_input);
  }
}

}  // namespace
}  // namespace hfshard
