// Objects are equal if their contents are, whichever release of torch wrote the archives around
// them.

#include "format/dcp/object_digest.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32.h"
#include "format/dcp/metadata.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "support/zstd_frames.h"

namespace hfshard::format::dcp {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

std::string object_archive(const std::string& content, const Records& more = {}) {
  Records records{{"data.pkl", content}};
  records.insert(records.end(), more.begin(), more.end());
  return torch_records(records);
}

// Returns the digest of these stored bytes, which are between others in their file.
std::string digest_of(const std::string& stored, std::vector<std::string> transforms = {}) {
  const TempDir dir;
  write_text(dir / "data", "front" + stored + "back");
  const std::vector<StorePath> files{StorePath(dir / "data")};
  const ObjectReader reader(files);
  return object_digest(reader, {"o", 0, {5, 5 + stored.size()}, std::move(transforms)});
}

std::string packed_digest(const std::string& archive, int level) {
  return digest_of(zstd_frame(archive, {level, 0, false}), {std::string(kZstdTransform)});
}

TEST(DcpObjectDigest, RecordsAboutTheArchiveDoNotCount) {
  const std::string bare = digest_of(object_archive("x"));
  const Records about{{".format_version", "1"},
                      {"byteorder", "little"},
                      {"version", "3\n"},
                      {".storage_alignment", "64"},
                      {".data/serialization_id", "1234"}};
  for (const auto& record : about)
    EXPECT_EQ(digest_of(object_archive("x", {record})), bare) << record.first;
  EXPECT_NE(digest_of(object_archive("y")), bare);
  EXPECT_NE(digest_of(object_archive("x", {{"data/0", "1"}})), bare);
  EXPECT_NE(digest_of(object_archive("x", {{"byteorder", "big"}})), bare);
  EXPECT_EQ(digest_of(object_archive("x", {{"a", "1"}, {"b", "2"}})),
            digest_of(object_archive("x", {{"b", "2"}, {"a", "1"}})));
  EXPECT_NE(digest_of(object_archive("x", {{"a", "1"}, {"b", "2"}})),
            digest_of(object_archive("x", {{"a", "12"}, {"b", ""}})));
}

TEST(DcpObjectDigest, ACompressedArchiveIsItsContent) {
  const std::string content(5000, 'x');
  const std::string old = object_archive(content, {{".data/serialization_id", "1"}});
  const std::string later = object_archive(content, {{".data/serialization_id", "2"}});
  EXPECT_EQ(packed_digest(old, 1), digest_of(old));
  EXPECT_EQ(packed_digest(old, 1), packed_digest(later, 19));
  EXPECT_NE(packed_digest(old, 1), packed_digest(object_archive("y"), 1));
}

TEST(DcpObjectDigest, OtherBytesAreHashedAsTheyAreStored) {
  const std::string old = object_archive("x", {{".data/serialization_id", "1"}});
  const std::string later = object_archive("x", {{".data/serialization_id", "2"}});
  ASSERT_EQ(digest_of(old), digest_of(later));
  EXPECT_NE(digest_of(old, {"unknown"}), digest_of(later, {"unknown"})) << "it can't be undone";
  EXPECT_NE(digest_of("abc"), digest_of("abd"));
  EXPECT_EQ(digest_of("abc"), digest_of("abc", {"unknown"}));
  const std::string zstd(kZstdTransform);
  EXPECT_NE(digest_of(zstd_frame("abc", {1, 0, false}), {zstd}), digest_of("abc"))
      << "the content isn't an archive";
}

TEST(DcpObjectDigest, ADamagedRecordIsCorruptAndNamed) {
  std::string damaged = object_archive("contents");
  damaged[damaged.find("contents")] = 'C';
  for (const bool packed : {false, true}) {
    const Error error =
        catch_error([&] { packed ? packed_digest(damaged, 1) : digest_of(damaged); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.format();
    EXPECT_EQ(error.tensor(), "o");
  }
  const Error error = catch_error([] { digest_of("no frame", {std::string(kZstdTransform)}); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.tensor(), "o");
  EXPECT_TRUE(error.file().ends_with("/data")) << error.file();
}

// hfshard unpacks at most 64 MiB of an object. It compares larger ones as they are stored.
TEST(DcpObjectDigest, OnlyALargeObjectDependsOnItsCompression) {
  const auto depends = [](std::size_t size) {
    const std::string archive = object_archive(std::string(size, 'x'));
    const std::string zstd(kZstdTransform);
    return packed_digest(archive, 1) !=
           digest_of(zstd_frame(archive, {1, 0, false}) + zstd_frame("", {1, 0, false}), {zstd});
  };
  EXPECT_FALSE(depends(std::size_t{3} << 20));
  EXPECT_TRUE(depends(std::size_t{64} << 20));
}

// torch.serialization.set_crc32_options(False) writes 0 for each CRC.
TEST(DcpObjectDigest, AnArchiveWithoutCrcsIsNotChecked) {
  const std::string checked = object_archive("contents");
  std::string crc(4, '\0');
  store_le<std::uint32_t>(std::as_writable_bytes(std::span(crc)).data(),
                          crc32(as_bytes(std::string_view("contents"))));
  std::string unchecked = checked;
  for (std::size_t at = 0; (at = unchecked.find(crc, at)) != std::string::npos;)
    unchecked.replace(at, crc.size(), crc.size(), '\0');
  ASSERT_NE(unchecked, checked);
  EXPECT_EQ(digest_of(unchecked), digest_of(checked));
}

}  // namespace
}  // namespace hfshard::format::dcp
