#include "bytes/hub/hf_cache.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kOther = "fedcba9876543210fedcba9876543210fedcba98";

// A cache as the Python client leaves it: two files of one commit, one of them in a folder.
class Cache {
 public:
  Cache() {
    add("config.json", "{}", std::string(40, 'a'));
    add("sub/model.safetensors", "12345", std::string(64, 'b'));
    write_text(folder() + "/refs/main", kCommit);
    write_text(folder() + "/refs/refs/pr/1", kCommit + "\n");
  }
  std::string folder() const { return dir_ / "hub/models--org--na-me"; }
  std::string snapshot() const { return folder() + "/snapshots/" + kCommit; }
  CachedRepo repo() const { return {dir_ / "hub", "org/na-me"}; }
  const TempDir& dir() const { return dir_; }

  void add(const std::string& path, const std::string& text, const std::string& etag) const {
    const std::filesystem::path blob = folder() + "/blobs/" + etag;
    write_text(blob, text);
    const std::filesystem::path link = snapshot() + "/" + path;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink(std::filesystem::relative(blob, link.parent_path()), link);
  }

 private:
  TempDir dir_;
};

TEST(HfCache, NamesFoldersOfRepositories) {
  EXPECT_EQ(cache_folder_name("org/name"), "models--org--name");
  EXPECT_EQ(cache_folder_name("gpt2"), "models--gpt2");
  EXPECT_EQ(repo_of_cache_folder("models--org--name"), "org/name");
  EXPECT_EQ(repo_of_cache_folder("models--gpt2"), "gpt2");
  for (const char* name : {"models--", "datasets--org--name", "models--a--b--c", "models----a",
                           "models--a--", "org--name", "models--a--b/c", "models--..--x"}) {
    EXPECT_FALSE(repo_of_cache_folder(name)) << name;
  }
}

TEST(HfCache, FindsTheCommitOfARevision) {
  const Cache cache;
  const CachedRepo repo = cache.repo();
  EXPECT_EQ(repo.folder(), cache.folder());
  EXPECT_EQ(repo.commit_of("main"), kCommit);
  EXPECT_EQ(repo.commit_of("refs/pr/1"), kCommit);  // the line's end isn't part of it
  EXPECT_EQ(repo.commit_of(kOther), kOther);
  for (const char* absent : {"v1", "refs/pr", "refs/pr/1/x", "../refs/main", ""}) {
    EXPECT_FALSE(repo.commit_of(absent)) << absent;
  }
  EXPECT_EQ(repo.revisions(), (Names{"main", "refs/pr/1"}));
  write_text(cache.folder() + "/refs/main.12345678.tmp", "");
  EXPECT_EQ(repo.revisions(), (Names{"main", "refs/pr/1"}));
  // Only a file is a reference.
  std::filesystem::create_symlink("nowhere", cache.folder() + "/refs/broken");
  ASSERT_EQ(::mkfifo((cache.folder() + "/refs/pipe").c_str(), 0600), 0);
  EXPECT_EQ(repo.revisions(), (Names{"main", "refs/pr/1"}));
  for (const char* wrong : {"", "main", "0123", "ref: refs/heads/main"}) {
    write_text(cache.folder() + "/refs/bad", wrong);
    EXPECT_EQ(catch_error([&] { repo.commit_of("bad"); }).code(), ErrorCode::corrupt) << wrong;
  }
}

TEST(HfCache, ListsTheFilesOfASnapshot) {
  const Cache cache;
  const CachedRepo repo = cache.repo();
  const std::vector<CachedFile> all = {{"config.json", 2}, {"sub/model.safetensors", 5}};
  EXPECT_EQ(repo.files(kCommit), all);
  EXPECT_TRUE(repo.has_snapshot(kCommit));
  EXPECT_EQ(repo.commits(), Names{kCommit});

  // A file without a link, as on Windows; a dangling link, and one in a circle.
  write_text(cache.snapshot() + "/plain", "xyz");
  std::filesystem::create_symlink("../../blobs/none", cache.snapshot() + "/dangling");
  std::filesystem::create_directory_symlink(".", cache.snapshot() + "/circle");
  ASSERT_EQ(::mkfifo((cache.snapshot() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(repo.files(kCommit),
            (std::vector<CachedFile>{all[0], {"plain", 3}, {"sub/model.safetensors", 5}}));
  EXPECT_TRUE(repo.files(kOther).empty());
  EXPECT_TRUE(repo.files("../blobs").empty());
  EXPECT_EQ(repo.broken_links(kCommit).size(), 1U);
  EXPECT_TRUE(repo.broken_links(kOther).empty());
  EXPECT_FALSE(repo.has_snapshot("../blobs"));

  const CachedRepo none(cache.dir() / "hub", "org/other");
  EXPECT_TRUE(none.files(kCommit).empty());
  EXPECT_TRUE(none.commits().empty());
  EXPECT_TRUE(none.revisions().empty());
  EXPECT_FALSE(none.commit_of("main"));
}

TEST(HfCache, ReadsTheListingOfACommit) {
  const Cache cache;
  const CachedRepo repo = cache.repo();
  EXPECT_FALSE(repo.tree(kCommit));
  const std::string path = repo.tree_path(kCommit);
  const std::string sha(64, 'b');
  write_text(path, R"({"format_version": 1, "files": {
      "sub/model.safetensors": {"size": 5, "blob_id": "c", "lfs_sha256": ")" +
                       sha + R"(", "lfs_size": 5, "xet_hash": ")" + sha + R"("},
      "config.json": {"size": 2, "blob_id": "d", "later": [], "lfs_sha256": null,
                      "xet_hash": null}}})");
  const auto tree = repo.tree(kCommit);
  ASSERT_TRUE(tree);
  EXPECT_EQ(*tree, (std::vector<TreeFile>{{"config.json", 2, "d", "", ""},
                                          {"sub/model.safetensors", 5, "c", sha, sha}}));
  EXPECT_TRUE(missing_files(*tree, repo.files(kCommit)).empty());
  cache.add("config2.json", "", "e");
  write_text(cache.folder() + "/blobs/" + sha, "1234");
  EXPECT_EQ(missing_files(*tree, repo.files(kCommit)), Names{"sub/model.safetensors"});
  EXPECT_EQ(missing_files(*tree, {}), (Names{"config.json", "sub/model.safetensors"}));

  for (const char* damaged :
       {"", "{", "[]", "{}", R"({"format_version": 2, "files": {}})",
        R"({"format_version": "1", "files": {}})", R"({"format_version": 1})",
        R"({"format_version": 1, "files": []})", R"({"format_version": 1, "files": {"a": {}}})",
        R"({"format_version": 1, "files": {"a": {"size": -1, "blob_id": "x"}}})",
        R"({"format_version": 1, "files": {"../a": {"size": 1, "blob_id": "x"}}})",
        R"({"format_version": 1, "files": {"a": {"size": 1, "blob_id": "x", "xet_hash": "y"}}})"}) {
    write_text(path, damaged);
    EXPECT_FALSE(repo.tree(kCommit)) << damaged;
  }
  EXPECT_FALSE(repo.tree("../trees/" + kCommit));
  std::filesystem::create_directories(repo.tree_path(kOther));
  EXPECT_FALSE(repo.tree(kOther));
}

TEST(HfCache, KnowsWhatACommitDoesNotHave) {
  const Cache cache;
  write_text(cache.folder() + "/.no_exist/" + kCommit + "/sub/x.json", "");
  EXPECT_TRUE(cache.repo().known_absent(kCommit, "sub/x.json"));
  EXPECT_FALSE(cache.repo().known_absent(kCommit, "x.json"));
  EXPECT_FALSE(cache.repo().known_absent(kOther, "sub/x.json"));
  EXPECT_FALSE(cache.repo().known_absent(kCommit, "../" + kCommit + "/sub/x.json"));
  EXPECT_FALSE(cache.repo().known_absent("../.no_exist/" + kCommit, "sub/x.json"));
}

TEST(HfCache, RecognisesPlacesThatWereNamed) {
  const Cache cache;
  const std::string folder = cache.folder();
  for (const char* end : {"", "/", "//"})
    EXPECT_EQ(recognise_cache_place(folder + end), (CachePlace{"org/na-me", folder, "", ""}));
  EXPECT_EQ(recognise_cache_place(cache.snapshot()),
            (CachePlace{"org/na-me", folder, kCommit, ""}));
  EXPECT_EQ(recognise_cache_place(cache.snapshot() + "/sub/"),
            (CachePlace{"org/na-me", folder, kCommit, "sub"}));
  EXPECT_EQ(recognise_cache_place(folder + "//snapshots/" + kCommit),
            (CachePlace{"org/na-me", folder + "/", kCommit, ""}));
  // A missing commit is still recognized. Using it fails with an error.
  EXPECT_EQ(recognise_cache_place(folder + "/snapshots/" + kOther)->commit, kOther);
  for (const std::string& path :
       {std::string(), std::string("/"), cache.dir().path(), cache.dir() / "hub", folder + "/blobs",
        folder + "/snapshots", folder + "/snapshots/main", folder + "x",
        cache.dir() / "hub/models--org--other", cache.dir() / ("x/snapshots/" + kCommit),
        cache.dir() / ("hub/models--org--other/snapshots/" + kCommit)}) {
    EXPECT_FALSE(recognise_cache_place(path)) << path;
  }
}

TEST(HfCache, ABrokenReferenceIsNamedWithAHint) {
  const Cache cache;
  write_text(cache.folder() + "/refs/v1", std::string(70, 'x') + "\n");
  const Error error = catch_error([&] { cache.repo().commit_of("v1"); });
  EXPECT_EQ(error.sentence(), "a reference in the cache holds \"" + std::string(64, 'x') +
                                  "\", which isn't a commit");
  EXPECT_EQ(error.file(), cache.folder() + "/refs/v1");
  EXPECT_EQ(error.hint_text(), "remove this file, or pass a commit with --revision");
  write_text(cache.folder() + "/refs/v1", " \t" + kCommit + "\r\n");
  EXPECT_EQ(cache.repo().commit_of("v1"), kCommit);
  write_text(cache.folder() + "/refs/v1", std::string(5000, 'x'));
  EXPECT_EQ(catch_error([&] { cache.repo().commit_of("v1"); }).code(), ErrorCode::limit);
}

TEST(HfCache, BrokenLinksHaveTheirTargetsAndTheOrderOfTheirPaths) {
  const Cache cache;
  std::filesystem::create_symlink("../../../blobs/gone", cache.snapshot() + "/sub/z");
  std::filesystem::create_symlink("../../blobs/none", cache.snapshot() + "/a");
  EXPECT_EQ(cache.repo().broken_links(kCommit),
            (std::vector<BrokenLink>{{"a", "../../blobs/none"}, {"sub/z", "../../../blobs/gone"}}));
}

TEST(HfCache, CommitsAreThoseWithADirectory) {
  const Cache cache;
  std::filesystem::create_directories(cache.folder() + "/snapshots/" + kOther);
  std::filesystem::create_directories(cache.folder() + "/snapshots/main");
  write_text(cache.folder() + "/snapshots/" + std::string(40, 'a'), "a file");
  EXPECT_EQ(cache.repo().commits(), (Names{kCommit, kOther}));
  EXPECT_TRUE(cache.repo().files(kOther).empty());
}

TEST(MissingFiles, AreThoseOfTheListingInItsOrder) {
  const std::vector<TreeFile> tree{
      {"c", 1, {}, {}, {}}, {"a", 2, {}, {}, {}}, {"b", 0, {}, {}, {}}};
  EXPECT_EQ(missing_files(tree, {{"a", 3}, {"b", 0}, {"d", 9}}), (Names{"c", "a"}));
  EXPECT_EQ(missing_files({}, {{"a", 3}}), Names{});
}

}  // namespace
}  // namespace hfshard
