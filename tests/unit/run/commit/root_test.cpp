#include "run/commit/root.h"

#include <string>

#include <gtest/gtest.h>

#include "unit/run/commit/staging_fixture.h"
#include "unit/run/plan_parts.h"

namespace hfshard {
namespace {

class RootTest : public StagingTest {
 protected:
  Plan plan_of(std::uint64_t step) const { return small_plan(source_, options_of_step(step)); }
  // Returns why a step is refused; empty if it isn't.
  std::string why(const Plan& plan, bool overwrite) const {
    RunOptions options = to_output(out_);
    options.overwrite = overwrite;
    try {
      check_root(plan, format_of("orbax"), options, out_paths(plan, out_));
    } catch (const Error& error) {  // what is tested
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(error.file(), join_path(out_, "hf"));
      EXPECT_EQ(error.hint_text(),
                "the steps of a root must belong to one model; pass another output");
      return error.sentence();
    }
    return "";
  }
  static constexpr const char* kOther = "the root's Hugging Face files differ from this source's";
};

TEST_F(RootTest, OtherStepsAreThoseBesideTheOwn) {
  const auto has_other = [&](const Plan& plan) {
    return has_other_steps(plan, format_of("orbax"), out_paths(plan, out_));
  };
  EXPECT_FALSE(has_other(plan_of(1)));
  convert(plan_of(1), to_output(out_));
  EXPECT_FALSE(has_other(plan_of(1)));
  EXPECT_TRUE(has_other(plan_of(2)));
  convert(plan_of(2), to_output(out_));
  EXPECT_TRUE(has_other(plan_of(1)));
}

TEST_F(RootTest, TheFilesOfOtherStepsAreOfTheSameModel) {
  write_text(join_path(source_, "tokenizer.json"), "{}");
  convert(plan_of(1), to_output(out_));
  const std::string tokenizer = join_path(out_, "hf/tokenizer.json");
  const std::string config = join_path(out_, "hf/config.json");
  for (const bool overwrite : {false, true}) EXPECT_EQ(why(plan_of(2), overwrite), "");
  write_text(tokenizer, "[]");  // of the same size, so its bytes are compared later
  EXPECT_EQ(why(plan_of(2), false), "");
  write_text(tokenizer, "longer");
  for (const bool overwrite : {false, true}) {
    EXPECT_EQ(why(plan_of(2), overwrite), kOther);
    EXPECT_EQ(why(plan_of(1), overwrite), "") << "the only step";
  }
  remove_tree(tokenizer);
  EXPECT_EQ(why(plan_of(2), false), kOther);
  EXPECT_EQ(why(plan_of(2), true), "") << "overwriting brings what is missing";
  write_text(tokenizer, "{}");
  std::string text = read_file(config);
  text.at(text.find("50")) = '6';
  write_text(config, text);
  for (const bool overwrite : {false, true}) EXPECT_EQ(why(plan_of(2), overwrite), kOther);
  PlanParts parts(plan_of(2));
  parts.model.config_text = text;  // as the model's config becomes
  EXPECT_EQ(why(parts.build(), false), "");
  remove_tree(config);
  EXPECT_EQ(why(plan_of(2), false), kOther);
  EXPECT_EQ(why(plan_of(2), true), "");
  make_directories(config);
  EXPECT_EQ(why(plan_of(2), true), kOther);
  remove_tree(join_path(out_, "hf"));
  EXPECT_EQ(why(plan_of(2), false), "") << "the run brings them all";
}

}  // namespace
}  // namespace hfshard
