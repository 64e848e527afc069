// A record that was damaged by a single bit, or cut short anywhere, does not count.

#include <gtest/gtest.h>

#include "bytes/files.h"
#include "run/journal.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

class JournalDamage : public testing::Test {
 protected:
  JournalDamage() {
    JournalWriter(dir_.path(), plan_, 0, 1).append({64, 128, {{0, {5, 6}}, {1, {7, 8}}}});
    for (const std::string& name : list_directory(dir_.path()))
      path_ = join_path(dir_.path(), name);
    whole_ = read_file(path_);
  }
  std::uint64_t records_of(const std::string& text) const {
    write_text(path_, text);
    return read_journals(dir_.path(), plan_, 2).records;
  }

  TempDir dir_;
  std::string plan_ = std::string(64, 'a');
  std::string path_;
  std::string whole_;
};

TEST_F(JournalDamage, EveryFlippedBitIsSeen) {
  EXPECT_EQ(records_of(whole_), 1U);
  for (std::size_t at = 0; at < whole_.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = whole_;
      text[at] = static_cast<char>(text[at] ^ (1 << bit));
      EXPECT_EQ(records_of(text), 0U) << "bit " << bit << " of byte " << at;
    }
  }
}

TEST_F(JournalDamage, EveryTruncationIsSeen) {
  for (std::size_t size = 0; size < whole_.size(); ++size)
    EXPECT_EQ(records_of(whole_.substr(0, size)), 0U) << size;
}

}  // namespace
}  // namespace hfshard
