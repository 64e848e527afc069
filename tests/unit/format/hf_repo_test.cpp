#include "format/hf_repo.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "support/temp_dir.h"

namespace hfshard::format {
namespace {

TEST(NoteLeftBehind, OfManyFilesTheFirstAreNamed) {
  const TempDir dir;
  std::vector<std::string> names;
  const auto add = [&](int number) {
    names.push_back(fmt::format("{}.dat", number));
    write_text(dir / names.back(), "x");
  };
  for (int i = 100; i < 300; ++i) add(i);
  const std::string all = fmt::format("neither read nor copied: \"{}\"", join(names, "\", \""));
  EXPECT_EQ(note_left_behind(dir.path(), names, {}, {}), all);
  add(300);
  add(301);
  EXPECT_EQ(note_left_behind(dir.path(), names, {}, {}), all + " and 2 more");
}

}  // namespace
}  // namespace hfshard::format
