// A record with one flipped bit, or truncated anywhere, doesn't count.

#include <span>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "bytes/local/files.h"
#include "run/commit/journal.h"
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

// A record that no run writes, with a valid checksum: from another version, or forged.
TEST_F(JournalDamage, WhatContradictsItselfIsNotARecordThoughItsChecksumFits) {
  const auto changed = [&](std::size_t at, std::uint64_t value) {
    std::string text = whole_;
    const auto bytes = std::as_writable_bytes(std::span(text));
    store_le(&bytes[at], value);
    store_le(&bytes[text.size() - 4], crc32c(bytes.first(text.size() - 4)));
    return text;
  };
  constexpr std::size_t kBegin = 8 + 32;
  constexpr std::size_t kEnd = kBegin + 8;
  constexpr std::size_t kCount = kBegin + 24;
  EXPECT_EQ(records_of(changed(kBegin, 63)), 1U);
  EXPECT_EQ(records_of(changed(kBegin, 128)), 0U) << "an empty range";
  EXPECT_EQ(records_of(changed(kEnd, 1)), 0U) << "a range that ends before it begins";
  EXPECT_EQ(records_of(changed(kCount, 3)), 0U) << "more digests than there are";
  EXPECT_EQ(records_of(changed(kCount, UINT64_MAX)), 0U);
  std::string odd = whole_;  // one byte more than digests and lengths need
  odd.insert(odd.size() - 4, 1, 'x');
  const auto bytes = std::as_writable_bytes(std::span(odd));
  store_le(&bytes[4], load_le<std::uint32_t>(&bytes[4]) + 1);
  store_le(&bytes[odd.size() - 4], crc32c(bytes.first(odd.size() - 4)));
  EXPECT_EQ(records_of(odd), 0U);
}

TEST_F(JournalDamage, EveryTruncationIsSeen) {
  for (std::size_t size = 0; size < whole_.size(); ++size)
    EXPECT_EQ(records_of(whole_.substr(0, size)), 0U) << size;
}

}  // namespace
}  // namespace hfshard
