#include "format/unreadable.h"

#include <string>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/catch_error.h"

namespace hfshard::format {
namespace {

TEST(AcceptUnreadable, TheHintLeavesOutThisTensorAlone) {
  const std::string name = "a[0].*";
  const Error why(ErrorCode::unsupported, "odd");
  const Error error = catch_error([&] { accept_unreadable({}, name, why); });
  const std::string& hint = error.hint_text();
  const std::size_t begin = hint.find("--exclude '") + 11;
  const std::string glob = hint.substr(begin, hint.rfind('\'') - begin);
  EXPECT_EQ(accept_unreadable({glob}, name, why).name, name) << hint;
  EXPECT_FALSE(glob_match(glob, "a[0].b")) << hint;
  EXPECT_TRUE(hint.starts_with("if the model doesn't need the tensor, pass --exclude '")) << hint;
  EXPECT_EQ(accept_unreadable({"x", glob}, name, why).why, "odd");
}

TEST(AcceptUnreadable, DamageIsAnErrorEvenInAnExcludedTensor) {
  const Error error =
      catch_error([] { accept_unreadable({"w"}, "w", Error(ErrorCode::corrupt, "two sizes")); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "two sizes");
  EXPECT_EQ(error.hint_text(), "");
}

}  // namespace
}  // namespace hfshard::format
