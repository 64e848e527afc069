#include "format/null/null.h"

#include <string>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "support/catch_error.h"

namespace hfshard::format::null {
namespace {

TEST(NullFormat, FormIsTheRawChunk) {
  const Format& target = null_format();
  const Leaf leaf{"w", DType::bf16, {10, 8}, {}, {}};
  const PieceForm form = target.form(leaf, {{}, {4, 8}, {2, 4}}, {});
  EXPECT_EQ(form.cells, 4U);
  EXPECT_EQ(form.cell_bytes, 16U);
  EXPECT_EQ(form.stored_bytes(), 64U);
  std::string stored(64, 'x');
  target.encode(form, {}, std::as_writable_bytes(std::span(stored)), {});
  EXPECT_EQ(stored, std::string(64, 'x'));
  EXPECT_EQ(target.form({"e", DType::f32, {0, 4}, {}, {}}, {{}, {0, 4}, {0, 4}}, {}).cells, 1U);
  EXPECT_EQ(target.form({"p", DType::f4, {8}, {}, {}}, {{}, {8}, {8}}, {}).stored_bytes(), 4U);
}

TEST(NullFormat, NothingIsWrittenAndNothingOpens) {
  const Format& target = null_format();
  EXPECT_EQ(target.name(), "null");
  EXPECT_TRUE(target.writes());
  EXPECT_TRUE(target.discards());
  EXPECT_FALSE(target.layout().linked_prefix.has_value());
  const Error error = catch_error([&] { target.open("x"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "the null format can't be opened");
  EXPECT_EQ(error.file(), "x");
}

TEST(NullFormat, AStepOrAnItemCannotBeChosen) {
  const auto chosen = [](const Choice& choice) {
    const Error error = catch_error([&] { null_format().open_one("x", choice); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence();
  };
  EXPECT_EQ(chosen({.step = 3, .items = {}}), "a null checkpoint has no steps");
  EXPECT_EQ(chosen({.step = {}, .items = "params"}), "a null checkpoint has no items");
}

TEST(FormatOf, AnUnknownNameIsAnErrorOfUsageWithTheKnownNames) {
  EXPECT_EQ(format_of("null").name(), "null");
  const Error error = catch_error([] { (void)format_of("nul"); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "hfshard has no format \"nul\"");
  EXPECT_EQ(error.hint_text(), "pass one of orbax, dcp, safetensors, null") << "not torch";
  EXPECT_EQ(format_of("torch").name(), "torch");
  EXPECT_EQ(format_of("").name(), "orbax");
}

}  // namespace
}  // namespace hfshard::format::null
