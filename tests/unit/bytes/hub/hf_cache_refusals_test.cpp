// The words for files that the cache can't take, and other programs' files in it.

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "bytes/hub/hf_cache_writer.h"
#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/file.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

const std::string kCachedCommit(40, 'c');

TreeFile listed_large(const std::string& path, std::string_view text) {
  return {path, text.size(), std::string(40, 'b'), sha256_hex(text), ""};
}

CacheWriter cache_in(const TempDir& dir, const CacheWait& wait = {}) {
  return {dir / "hub", "o/m", kCachedCommit, wait};
}

Error refused_finish(const CacheWriter& writer, const TreeFile& file, std::string_view bytes) {
  auto out = writer.begin(file);
  out->write_at(0, as_bytes(bytes));
  return catch_error([&] { out->finish(); });
}

TEST(HfCacheRefusal, SaysWhichBytesAreMissingOrDifferent) {
  const TempDir dir;
  const CacheWriter writer = cache_in(dir);
  const TreeFile file = listed_large("sub/f", "1234");
  const Error ended = refused_finish(writer, file, "123");
  EXPECT_EQ(ended.sentence(), "a file ended before all its bytes arrived");
  EXPECT_EQ(ended.file(), "sub/f");
  EXPECT_EQ(ended.range(), (ByteRange{0, 3}));
  EXPECT_EQ(ended.total_bytes(), 4U);
  const Error other = refused_finish(writer, file, "1235");
  EXPECT_EQ(other.sentence(), "the sha256 of the received bytes is " + sha256_hex("1235") +
                                  ", and the Hub lists " + sha256_hex("1234"));
  EXPECT_EQ(other.hint_text(),
            "run the same command again; if that doesn't help, the Hub or its mirror is damaged");
  TreeFile plain = file;
  plain.sha256.clear();
  EXPECT_TRUE(refused_finish(writer, plain, "1234")
                  .sentence()
                  .starts_with("the git object id of the received bytes is "));
  auto out = writer.begin(file);
  const Error more = catch_error([&] { out->write_at(3, as_bytes("45")); });
  EXPECT_EQ(more.sentence(), "the server sent more bytes than the Hub listed");
  EXPECT_EQ(more.range(), (ByteRange{3, 5}));
  EXPECT_EQ(more.total_bytes(), 4U);
  EXPECT_NO_THROW(out->write_at(4, {}));
}

TEST(HfCacheRefusal, SaysWhichNameIsWrong) {
  const TempDir dir;
  const CacheWriter writer = cache_in(dir);
  const auto said = [](auto action) { return catch_error(action).sentence(); };
  EXPECT_EQ(said([&] { writer.begin(listed_large("../f", "1")); }),
            "the cache can't hold the file \"../f\": the path has the part \"..\"");
  TreeFile file = listed_large("f", "1");
  file.sha256 = "abc";
  EXPECT_EQ(said([&] { writer.begin(file); }),
            "\"abc\" isn't a file digest, which the cache needs as a name");
  EXPECT_EQ(said([&] { writer.write_ref("a..b"); }),
            "\"a..b\" isn't a revision: the revision has \"..\"");
  EXPECT_EQ(said([&] { CacheWriter(dir.path(), "a/b/c", kCachedCommit); }),
            "\"a/b/c\" isn't a model's id: an id has at most one '/'");
  EXPECT_EQ(said([&] { CacheWriter(dir.path(), "o/m", "main"); }), "\"main\" isn't a commit");
}

TEST(HfCacheRefusal, SaysThatAnotherProcessHasTheLock) {
  const TempDir dir;
  const TreeFile file = listed_large("f", "1");
  const std::string path = dir / ("hub/.locks/models--o--m/" + file.sha256 + ".lock");
  write_text(path, "");
  const sys::Descriptor theirs(::open(path.c_str(), O_RDWR));
  ASSERT_EQ(::flock(theirs.get(), LOCK_EX | LOCK_NB), 0);
  const Error error = catch_error([&] {
    cache_in(dir, {std::chrono::milliseconds(0), {}}).begin(file);
  });
  EXPECT_EQ(error.sentence(), "another process has locked this file of the cache");
  EXPECT_EQ(error.file(), path);
  EXPECT_EQ(error.hint_text(), "wait until its download is done");
}

TEST(HfCacheRefusal, SaysHowMuchSpaceIsMissing) {
  const TempDir dir;
  TreeFile file = listed_large("f", "1");
  file.size_bytes = std::uint64_t{1} << 60;
  const Error error = catch_error([&] { cache_in(dir).begin(file); });
  EXPECT_TRUE(error.sentence().starts_with("the file needs 1 EiB in the cache, and "))
      << error.sentence();
  EXPECT_TRUE(error.sentence().ends_with(" are free")) << error.sentence();
  EXPECT_EQ(error.file(), "f");
  EXPECT_EQ(error.hint_text(), "free some space, or set HF_HUB_CACHE to another directory");
}

// A file without a link is how Windows has it.
TEST(HfCacheWriter, ReplacesAFileOfAnotherSizeAndKeepsOneOfItsSize) {
  const TempDir dir;
  const CacheWriter writer = cache_in(dir);
  const TreeFile file = listed_large("f", "1234");
  const std::string pointer = writer.snapshot_path() + "/f";
  write_text(pointer, "123");
  EXPECT_FALSE(writer.has(file));
  auto out = writer.begin(file);
  ASSERT_TRUE(out);
  out->write_at(0, as_bytes("1234"));
  out->finish();
  EXPECT_TRUE(is_symlink(pointer));
  EXPECT_EQ(read_text(pointer), "1234");
  std::filesystem::remove(pointer);
  write_text(pointer, "4321");
  EXPECT_TRUE(writer.has(file));
  EXPECT_FALSE(writer.begin(file));
  EXPECT_EQ(read_text(pointer), "4321");
}

TEST(HfCacheWriter, KeepsTheTagThatTheCacheHas) {
  const TempDir dir;
  write_text(dir / "hub/CACHEDIR.TAG", "theirs");
  EXPECT_TRUE(cache_in(dir).begin(listed_large("f", "1")));
  EXPECT_EQ(read_text(dir / "hub/CACHEDIR.TAG"), "theirs");
}

// Without locks, a process that still writes them can own them.
TEST(HfCacheWriter, UnfinishedFilesStayWhereThereAreNoLocks) {
  const TempDir dir;
  const CacheWriter writer = cache_in(dir);
  const TreeFile file = listed_large("f", "1234");
  const std::string unfinished = writer.repo().blob_path(file.sha256) + ".00000001.incomplete";
  const std::string text = writer.repo().tree_path(kCachedCommit) + ".0123abcd.tmp";
  for (const std::string& path : {unfinished, text}) write_text(path, "12");
  {
    const SyscallFault none("flock", 1, ENOSYS, 9);
    const auto out = writer.begin(file);
    ASSERT_TRUE(out);
    EXPECT_EQ(out->there_bytes(), 0U);
    writer.write_tree({file});
  }
  EXPECT_EQ(read_text(unfinished), "12");
  EXPECT_EQ(read_text(text), "12");
  writer.write_tree({file});
  EXPECT_FALSE(exists(text)) << "with the lock, no one has it";
  EXPECT_EQ(writer.begin(file)->there_bytes(), 2U);
}

}  // namespace
}  // namespace hfshard
