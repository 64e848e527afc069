// Objects of a checkpoint, read from their files.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "catalog/object.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string object_text(const ObjectReader& reader, const ObjectInfo& object) {
  std::string out;
  reader.read(object, [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

TEST(ObjectReader, ReadsTheBytesOfAnObjectFromItsFile) {
  const TempDir dir;
  write_text(dir / "a", "0123456789");
  write_text(dir / "b", "abcdefghij");
  const std::vector<StorePath> files{StorePath(dir / "a"), StorePath(dir / "b")};
  const ObjectReader reader(files);
  EXPECT_EQ(object_text(reader, {"o", 0, {2, 5}, {}}), "234");
  EXPECT_EQ(object_text(reader, {"o", 1, {2, 5}, {}}), "cde");
  EXPECT_EQ(object_text(reader, {"o", 1, {9, 10}, {}}), "j");
  EXPECT_EQ(object_text(reader, {"o", 1, {4, 4}, {}}), "");
  EXPECT_EQ(reader.open({"o", 1, {0, 1}, {}})->name(), dir / "b");
}

TEST(ObjectReader, StreamsALargeObjectInSteps) {
  const TempDir dir;
  std::string text((std::size_t{5} << 19) + 7, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  write_text(dir / "a", text);
  const std::vector<StorePath> files{StorePath(dir / "a")};
  const ObjectReader reader(files);
  std::string read;
  std::vector<std::size_t> sizes;
  reader.read({"o", 0, {3, text.size()}, {}}, [&](std::span<const std::byte> bytes) {
    read += as_text(bytes);
    sizes.push_back(bytes.size());
  });
  EXPECT_TRUE(read == text.substr(3));
  const std::size_t step = ObjectReader::kStepBytes;
  EXPECT_EQ(sizes, (std::vector<std::size_t>{step, step, text.size() - 3 - 2 * step}));
}

TEST(ObjectReader, ErrorsNameTheObject) {
  const TempDir dir;
  write_text(dir / "a", "0123456789");
  const std::vector<StorePath> files{StorePath(dir / "a"), StorePath(dir / "none")};
  const ObjectReader reader(files);
  const Error beyond = catch_error([&] { object_text(reader, {"lr", 0, {8, 12}, {}}); });
  EXPECT_EQ(beyond.code(), ErrorCode::corrupt);
  EXPECT_EQ(beyond.tensor(), "lr");
  EXPECT_EQ(beyond.file(), dir / "a");
  EXPECT_EQ(beyond.range(), (ByteRange{8, 12}));
  const Error absent = catch_error([&] { object_text(reader, {"step", 1, {0, 1}, {}}); });
  EXPECT_EQ(absent.code(), ErrorCode::not_found);
  EXPECT_EQ(absent.tensor(), "step");
  EXPECT_EQ(absent.file(), dir / "none");
}

TEST(ObjectSha256, IsThatOfTheBytesWhichOthersCanGetToo) {
  const TempDir dir;
  write_text(dir / "a", "xabcx");
  const std::vector<StorePath> files{StorePath(dir / "a")};
  const ObjectReader reader(files);
  const ObjectInfo object{"o", 0, {1, 4}, {}};
  EXPECT_EQ(object.size_bytes(), 3U);
  EXPECT_EQ(object_sha256(reader, object), sha256_hex("abc"));
  std::string also;
  const std::string digest = object_sha256(
      reader, object, [&](std::span<const std::byte> bytes) { also += as_text(bytes); });
  EXPECT_EQ(digest, sha256_hex("abc"));
  EXPECT_EQ(also, "abc");
}

}  // namespace
}  // namespace hfshard
