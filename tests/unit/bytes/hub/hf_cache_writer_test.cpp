#include "bytes/hub/hf_cache_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/file.h>
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

const std::string kWritten = "0123456789abcdef0123456789abcdef01234567";

std::string git_oid(std::string_view text) {
  const std::string head = "blob " + std::to_string(text.size());
  return to_hex(Sha1().update(head).update(std::string_view("\0", 1)).update(text).finish());
}
TreeFile large(std::string path, std::string_view text) {
  return {std::move(path), text.size(), git_oid("a pointer"), sha256_hex(text), ""};
}
TreeFile plain(std::string path, std::string_view text) {
  return {std::move(path), text.size(), git_oid(text), "", ""};
}

class EmptyCache {
 public:
  std::string root() const { return dir_ / "hub"; }
  std::string folder() const { return root() + "/models--org--name"; }
  CacheWriter writer(CacheWait wait = {}) const { return {root(), "org/name", kWritten, wait}; }
  std::string lock_path(const TreeFile& file) const {
    return root() + "/.locks/models--org--name/" + cache_etag(file) + ".lock";
  }
  Names blobs() const { return list_directory(folder() + "/blobs"); }

 private:
  TempDir dir_;
};

void put(const CacheWriter& writer, const TreeFile& file, std::string_view text) {
  auto out = writer.begin(file);
  ASSERT_TRUE(out);
  out->write_at(0, as_bytes(text));
  out->finish();
}

TEST(HfCacheWriter, LaysFilesOutAsTheClientDoes) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  const TreeFile weights = large("sub/deep/model.safetensors", "weights");
  const TreeFile config = plain("config.json", "{}");
  EXPECT_FALSE(writer.has(config));
  put(writer, weights, "weights");
  put(writer, config, "{}");
  writer.write_tree({config, weights});
  writer.write_ref("main");
  writer.write_ref("refs/pr/1");
  writer.write_ref(kWritten);

  // Known answer of `git hash-object`.
  EXPECT_EQ(cache_etag(config), "9e26dfeeb6e641a33dae4961196235bdb965b21b");
  EXPECT_EQ(cache.blobs(), (Names{cache_etag(weights), cache_etag(config)}));
  const std::string snapshot = writer.snapshot_path();
  EXPECT_EQ(std::filesystem::read_symlink(snapshot + "/config.json"),
            "../../blobs/" + cache_etag(config));
  EXPECT_EQ(std::filesystem::read_symlink(snapshot + "/sub/deep/model.safetensors"),
            "../../../../blobs/" + cache_etag(weights));
  EXPECT_EQ(read_text(snapshot + "/sub/deep/model.safetensors"), "weights");
  EXPECT_EQ(read_text(cache.folder() + "/refs/main"), kWritten);
  EXPECT_EQ(read_text(cache.folder() + "/refs/refs/pr/1"), kWritten);
  EXPECT_EQ(list_directory(cache.folder() + "/refs"), (Names{"main", "refs"}));
  EXPECT_EQ(read_text(cache.lock_path(config)), "");
  EXPECT_EQ(read_text(cache.root() + "/CACHEDIR.TAG").size(), 191U);

  const CachedRepo repo(cache.root(), "org/name");
  EXPECT_EQ(repo.commit_of("main"), kWritten);
  EXPECT_EQ(repo.tree(kWritten), (std::vector<TreeFile>{config, weights}));
  EXPECT_TRUE(missing_files(*repo.tree(kWritten), repo.files(kWritten)).empty());
}

// The text that the client's own write_tree_cache makes for the same files.
TEST(HfCacheWriter, WritesListingsByteForByte) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  const std::string sha(64, 'a');
  writer.write_tree({{"\xC3\xA9\xF0\x9F\x98\x80\".txt", 0, "o", "", ""}, {"a", 7, "p", sha, sha}});
  EXPECT_EQ(
      read_text(writer.repo().tree_path(kWritten)),
      "{\n \"format_version\": 1,\n \"files\": {\n  \"a\": {\n   \"size\": 7,\n   \"blob_id\": "
      "\"p\",\n   \"lfs_sha256\": \"" +
          sha + "\",\n   \"lfs_size\": 7,\n   \"xet_hash\": \"" + sha +
          "\"\n  },\n  \"\\u00e9\\ud83d\\ude00\\\".txt\": {\n   \"size\": 0,\n   \"blob_id\": "
          "\"o\"\n  }\n }\n}");
  writer.write_tree({});
  EXPECT_EQ(read_text(writer.repo().tree_path(kWritten)),
            "{\n \"format_version\": 1,\n \"files\": {}\n}");
}

TEST(HfCacheWriter, TakesBytesInAnyOrder) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  std::string text(3U << 20, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 / 7);
  const TreeFile file = large("model.safetensors", text);
  auto out = writer.begin(file);
  ASSERT_TRUE(out);
  const std::size_t piece = 300'007;
  const std::size_t pieces = text.size() / piece + 1;
  for (const std::size_t first : {1U, 0U, 2U}) {
    for (std::size_t i = first; i < pieces; i += 3) {
      out->write_at(i * piece, as_bytes(std::string_view(text).substr(i * piece, piece)));
    }
  }
  out->finish();
  EXPECT_EQ(read_text(writer.snapshot_path() + "/model.safetensors"), text);
}

TEST(HfCacheWriter, ShowsNothingOfAFileThatIsNotWholeOrNotRight) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  for (const TreeFile& file : {large("x", "1234"), plain("y", "1234")}) {
    const auto end_of = [&](std::uint64_t offset, std::string_view bytes) {
      auto out = writer.begin(file);
      out->write_at(offset, as_bytes(bytes));
      EXPECT_EQ(cache.blobs().size(), 1U);
      EXPECT_TRUE(cache.blobs()[0].starts_with(cache_etag(file) + "."));
      EXPECT_TRUE(cache.blobs()[0].ends_with(".incomplete"));
      const Error error = catch_error([&] { out->finish(); });
      EXPECT_EQ(error.file(), file.path);
      return error.code();
    };
    EXPECT_EQ(end_of(0, "123"), ErrorCode::corrupt);
    EXPECT_EQ(end_of(1, "234"), ErrorCode::corrupt);
    EXPECT_EQ(end_of(0, "1235"), ErrorCode::corrupt);
    {
      auto out = writer.begin(file);
      EXPECT_EQ(catch_error([&] { out->write_at(1, as_bytes("2345")); }).code(),
                ErrorCode::corrupt);
    }
    EXPECT_TRUE(cache.blobs().empty());
    EXPECT_FALSE(writer.has(file));
  }
}

TEST(HfCacheWriter, TakesWhatIsThere) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  const TreeFile file = large("a.bin", "bytes");
  put(writer, file, "bytes");
  EXPECT_FALSE(writer.begin(file));

  // The same bytes under another name, and in another commit.
  TreeFile other = file;
  other.path = "sub/b.bin";
  EXPECT_TRUE(writer.has(other));
  EXPECT_FALSE(writer.begin(other));
  EXPECT_EQ(read_text(writer.snapshot_path() + "/sub/b.bin"), "bytes");
  const CacheWriter later(cache.root(), "org/name", std::string(40, 'f'));
  EXPECT_FALSE(later.begin(file));
  EXPECT_EQ(read_text(later.snapshot_path() + "/a.bin"), "bytes");
  EXPECT_EQ(cache.blobs().size(), 1U);

  // A truncated blob and a dangling link count as absent.
  write_text(writer.repo().blob_path(cache_etag(file)), "byt");
  EXPECT_FALSE(writer.has(file));
  put(writer, file, "bytes");
  EXPECT_EQ(read_text(later.snapshot_path() + "/a.bin"), "bytes");
  std::filesystem::remove(writer.repo().blob_path(cache_etag(file)));
  put(writer, file, "bytes");
  EXPECT_EQ(read_text(writer.snapshot_path() + "/sub/b.bin"), "bytes");

  TreeFile directory = plain("directory", "");
  std::filesystem::create_directory(writer.snapshot_path() + "/directory");
  directory.size_bytes = file_info(writer.snapshot_path() + "/directory")->stamp.size_bytes;
  EXPECT_FALSE(writer.has(directory));

  // Unfinished files of older clients belong to them, and stay.
  const std::string theirs = writer.repo().blob_path(cache_etag(file)) + ".incomplete";
  std::filesystem::remove(writer.repo().blob_path(cache_etag(file)));
  write_text(theirs, "byt");
  put(writer, file, "bytes");
  EXPECT_EQ(read_text(theirs), "byt");
  sys::set_fault_hook([](const char* call, const char* path) {  // another process links it first
    return std::string_view(call) == "symlink" ? (write_text(path, "1"), 0) : 0;
  });
  put(writer, plain("x", "1"), "1");
  sys::set_fault_hook(nullptr);
}

// The files of a killed process. It can't be running, since hfshard has its lock.
TEST(HfCacheWriter, GoesOnWithTheNewestOfWhatWasLeft) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  const TreeFile file = large("a.bin", "0123456789");
  const std::string blob = writer.repo().blob_path(cache_etag(file));
  const auto leave = [&](const char* digits, std::string_view text, int age_seconds) {
    const std::string path = blob + "." + digits + ".incomplete";
    write_text(path, text);
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_seconds));
  };
  leave("00000001", "012345", 30);
  leave("00000002", "0123", 10);
  leave("00000003", "01234567", 20);
  leave("00000004", "0123456789 and more", 0);
  write_text(blob + ".incomplete", "012");  // an older client's, which continues it
  auto out = writer.begin(file);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->there_bytes(), 4U);
  EXPECT_EQ(cache.blobs().size(), 2U);
  out->write_at(6, as_bytes("6789"));
  out->write_at(4, as_bytes("45"));
  out->finish();
  EXPECT_EQ(read_text(writer.snapshot_path() + "/a.bin"), "0123456789");
  EXPECT_EQ(cache.blobs(), (Names{cache_etag(file), cache_etag(file) + ".incomplete"}));

  // One that is whole lacks only its name.
  out.reset();  // with its lock
  std::filesystem::remove(blob);
  leave("00000006", "0123456789", 0);
  out = writer.begin(file);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->there_bytes(), 10U);
  out->finish();
  EXPECT_EQ(read_text(blob), "0123456789");

  // A link could lead to a file of the user, or nowhere.
  out.reset();
  std::filesystem::remove(blob);
  write_text(cache.root() + "/mine", "0123");
  std::filesystem::create_symlink(cache.root() + "/mine", blob + ".00000007.incomplete");
  std::filesystem::create_symlink("nowhere", blob + ".00000008.incomplete");
  out = writer.begin(file);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->there_bytes(), 0U);
  EXPECT_EQ(read_text(cache.root() + "/mine"), "0123");

  // Different bytes are detected at the end, and the file is removed.
  out.reset();
  leave("00000005", "xyz", 0);
  out = writer.begin(file);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->there_bytes(), 3U);
  out->write_at(3, as_bytes("3456789"));
  EXPECT_EQ(catch_error([&] { out->finish(); }).code(), ErrorCode::corrupt);
  out.reset();
  put(writer, file, "0123456789");
}

TEST(HfCacheWriter, OnlyTheBytesThatAreMissingNeedSpace) {
  const EmptyCache cache;
  constexpr std::uint64_t kLeft = std::uint64_t{64} << 30;  // a hole
  TreeFile file = large("a.bin", "x");
  file.size_bytes = std::max(kLeft, free_bytes(cache.root()) + kLeft / 2);
  EXPECT_EQ(catch_error([&] { cache.writer().begin(file); }).code(), ErrorCode::limit);
  const std::string left = cache.folder() + "/blobs/" + cache_etag(file) + ".00000001.incomplete";
  write_text(left, "");
  std::filesystem::resize_file(left, kLeft);
  const SyscallFault fault("pread", 1, EIO);  // after the check of the space
  const Error error = catch_error([&] { cache.writer().begin(file); });
  EXPECT_EQ(error.sentence(), "can't read: Input/output error");
}

TEST(HfCacheWriter, WaitsForWhoDownloadsTheSame) {
  const EmptyCache cache;
  const TreeFile file = large("x", "1234");
  const std::string path = cache.lock_path(file);
  write_text(path, "");
  // Python's filelock locks it this way.
  sys::Descriptor theirs(::open(path.c_str(), O_RDWR));
  ASSERT_EQ(::flock(theirs.get(), LOCK_EX | LOCK_NB), 0);
  unsigned looks = 0;
  CacheWait wait{std::chrono::milliseconds(120), [&](const std::string& at, auto) {
                   EXPECT_EQ(at, path);
                   ++looks;
                 }};
  EXPECT_EQ(catch_error([&] { cache.writer(wait).begin(file); }).code(), ErrorCode::limit);
  EXPECT_GE(looks, 2U);
  const auto stop = [](const std::string&, auto) {
    throw Error(ErrorCode::cancelled, "interrupted");
  };
  EXPECT_EQ(catch_error([&] {
              cache.writer({std::chrono::hours(1), stop}).begin(file);
            }).code(),
            ErrorCode::cancelled);

  // Another process adds the file while hfshard waits.
  auto ours =
      std::async(std::launch::async, [&] { return cache.writer().begin(file).has_value(); });
  write_text(cache.folder() + "/blobs/" + cache_etag(file), "1234");
  theirs = sys::Descriptor();
  EXPECT_FALSE(ours.get());
  EXPECT_EQ(read_text(cache.writer().snapshot_path() + "/x"), "1234");
}

TEST(HfCacheWriter, HoldsTheLockUntilTheFileIsThere) {
  const EmptyCache cache;
  const TreeFile file = plain("x", "1234");
  const auto is_locked = [&] {
    const sys::Descriptor fd(::open(cache.lock_path(file).c_str(), O_RDWR));
    return ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
  };
  {
    auto out = cache.writer().begin(file);
    EXPECT_TRUE(is_locked());
    out->write_at(0, as_bytes("1234"));
    out->finish();
  }
  EXPECT_FALSE(is_locked());
}

TEST(HfCacheWriter, GoesOnWhereThereAreNoLocks) {
  const EmptyCache cache;
  const SyscallFault none("flock", 1, ENOSYS);
  EXPECT_TRUE(cache.writer().begin(plain("x", "1234")));
  EXPECT_TRUE(none.fired());
}

// Another process deletes the lock file between open and lock, so that lock has no effect.
TEST(HfCacheWriter, LocksTheFileThatIsThere) {
  const EmptyCache cache;
  const TreeFile file = plain("x", "1234");
  static bool removed;
  removed = false;
  sys::set_fault_hook([](const char* call, const char* path) {
    const bool locks_a_file =
        std::string_view(call) == "flock" && std::string_view(path).ends_with(".lock");
    if (locks_a_file && !std::exchange(removed, true)) std::filesystem::remove(path);
    return 0;
  });
  const auto out = cache.writer().begin(file);
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(removed);
  const sys::Descriptor fd(::open(cache.lock_path(file).c_str(), O_RDWR));
  ASSERT_GE(fd.get(), 0);
  EXPECT_NE(::flock(fd.get(), LOCK_EX | LOCK_NB), 0);
}

TEST(HfCacheWriter, RefusesNamesThatLeadElsewhere) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  for (const char* path : {"../x", "/x", "a/../../x", "a\\..\\x", "C:x", ""}) {
    EXPECT_EQ(catch_error([&] { writer.begin(plain(path, "")); }).code(), ErrorCode::bad_input)
        << path;
  }
  for (const char* etag : {"", "../../../x", "abc", "W/\"x\""}) {
    EXPECT_EQ(catch_error([&] {
                writer.begin({"x", 1, etag, "", ""});
              }).code(),
              ErrorCode::bad_input)
        << etag;
    if (*etag == '\0') continue;
    EXPECT_EQ(catch_error([&] {
                writer.begin({"x", 1, std::string(40, 'a'), etag, ""});
              }).code(),
              ErrorCode::bad_input)
        << etag;
  }
  EXPECT_EQ(catch_error([&] { writer.write_ref("../x"); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] { CacheWriter(cache.root(), "../x", kWritten); }).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] { CacheWriter(cache.root(), "org/name", "main"); }).code(),
            ErrorCode::bad_input);
  EXPECT_FALSE(exists(cache.root()));
}

TEST(HfCacheWriter, PutsReferencesOnlyBesideASnapshotAndWithoutALineEnd) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  EXPECT_EQ(catch_error([&] { writer.write_ref("main"); }).code(), ErrorCode::internal);
  EXPECT_FALSE(exists(cache.folder() + "/refs"));
  put(writer, plain("x", "1"), "1");
  for (const std::string& before : {kWritten + "\n", std::string(40, 'f'), std::string()}) {
    write_text(cache.folder() + "/refs/main", before);
    writer.write_ref("main");
    EXPECT_EQ(read_text(cache.folder() + "/refs/main"), kWritten);
  }
  // A correct reference isn't touched, since the cache can belong to another user.
  const auto inode = file_info(cache.folder() + "/refs/main")->stamp.inode;
  writer.write_ref("main");
  EXPECT_EQ(file_info(cache.folder() + "/refs/main")->stamp.inode, inode);
}

// Killed processes left the last two. The others have names that hfshard never gives to this text.
TEST(HfCacheWriter, RemovesTextsThatWereLeft) {
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  put(writer, plain("x", "1"), "1");
  const std::string refs = cache.folder() + "/refs";
  const Names kept = {"main-0123abcd.tmp", "main.0123456g.tmp",   "main.0123abcd.incomplete",
                      "main.0123abcd.tmq", "main.0123abcdef.tmp", "main.tmp",
                      "mine.0123abcd.tmp", "other.0123abcd.tmp"};
  for (const std::string& name : kept) write_text(refs + "/" + name, "");
  for (const char* left : {"main.0123abcd.tmp", "main.fedcba98.tmp"})
    write_text(refs + "/" + left, "0123");
  writer.write_ref("main");
  Names wanted = kept;
  wanted.insert(wanted.begin(), "main");
  EXPECT_EQ(list_directory(refs), wanted);
}

TEST(HfCacheWriter, MakesFilesAsTheUmaskHasIt) {
  const EmptyCache cache;
  const mode_t before = ::umask(0004);
  put(cache.writer(), plain("a/x", "1"), "1");
  ::umask(before);
  const auto mode = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  EXPECT_EQ(mode(cache.writer().snapshot_path() + "/a/x"), 0662U);
  EXPECT_EQ(mode(cache.writer().snapshot_path() + "/a"), 0773U);
  EXPECT_EQ(mode(cache.lock_path(plain("a/x", "1"))), 0664U) << "other users can wait for it";
}

// After any failure, the whole file exists or none, and a second attempt succeeds.
TEST(HfCacheWriter, SurvivesTheFailureOfEachCall) {
  for (int nth = 1;; ++nth) {
    const EmptyCache cache;
    const CacheWriter writer = cache.writer();
    const TreeFile file = large("sub/x", "1234");
    const auto all = [&] {
      if (auto out = writer.begin(file)) {
        out->write_at(0, as_bytes("1234"));
        out->finish();
      }
      writer.write_tree({file});
      writer.write_ref("main");
    };
    bool fired = false;
    {
      const SyscallFault fault("", nth, EIO);
      try {
        all();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << nth;
      }
      fired = fault.fired();
    }
    const std::string blob = writer.repo().blob_path(cache_etag(file));
    if (exists(blob)) {
      EXPECT_EQ(read_text(blob), "1234") << nth;
    }
    all();
    EXPECT_EQ(read_text(writer.snapshot_path() + "/sub/x"), "1234") << nth;
    EXPECT_EQ(writer.repo().commit_of("main"), kWritten) << nth;
    EXPECT_EQ(cache.blobs(), Names{cache_etag(file)}) << nth;
    if (!fired) break;
    ASSERT_LT(nth, 200);
  }
}

TEST(HfCacheWriter, MakesBytesDurableBeforeTheyHaveTheirName) {
  const EmptyCache cache;
  auto out = cache.writer().begin(plain("x", "1"));
  out->write_at(0, as_bytes("1"));
  const SyscallFault fault("fdatasync", 1, EIO);
  EXPECT_EQ(catch_error([&] { out->finish(); }).code(), ErrorCode::io);
  EXPECT_FALSE(exists(cache.writer().repo().blob_path(cache_etag(plain("x", "1")))));
}

TEST(HfCacheWriter, SaysWhatTheFileSystemLacks) {
  for (const int number : {EPERM, ENOTSUP, ENOSYS, EEXIST}) {
    const EmptyCache cache;
    const SyscallFault fault("symlink", 1, number);
    auto out = cache.writer().begin(plain("x", "1"));
    out->write_at(0, as_bytes("1"));
    EXPECT_EQ(catch_error([&] { out->finish(); }).code(),
              number == EEXIST ? ErrorCode::io : ErrorCode::unsupported)
        << number;
  }
  const EmptyCache cache;
  const CacheWriter writer = cache.writer();
  TreeFile huge = plain("y", "2");
  huge.size_bytes = std::uint64_t{1} << 60;
  EXPECT_EQ(catch_error([&] { writer.begin(huge); }).code(), ErrorCode::limit);
}

}  // namespace
}  // namespace hfshard
