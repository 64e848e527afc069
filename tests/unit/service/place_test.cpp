#include "service/place.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

// The cache has no listing, but it names its blobs by their digests. So the identity doesn't depend
// on the time of the download.
TEST(FindPlace, ACachedFileIsIdentifiedByTheNameOfItsBlob) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string snapshot = join_path(folder, "snapshots/" + std::string(40, 'c'));
  const std::string git(40, 'a');
  const std::string sha(64, 'b');
  std::filesystem::create_directories(snapshot);
  for (const auto& [file, blob] : {std::pair("config.json", git), {"model.safetensors", sha}}) {
    write_text(join_path(folder, "blobs/" + blob), "{}");
    std::filesystem::create_symlink("../../blobs/" + blob, join_path(snapshot, file));
  }
  const StorePath place = find_place(snapshot);
  EXPECT_EQ((place / "config.json").find()->identity.version, "git:" + git);
  EXPECT_EQ((place / "model.safetensors").find()->identity.version, "sha256:" + sha);
}

// Neither snapshot has all files, so the error doesn't send the reader to the other one.
TEST(FindPlace, AnotherSnapshotWithABrokenLinkIsNotCalledWhole) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string torn(40, 'a');
  const std::string other(40, 'b');
  write_text(join_path(folder, "blobs/there"), "{}");
  const auto add = [&](const std::string& commit, const char* file, const char* blob) {
    const std::string snapshot = join_path(folder, "snapshots/" + commit);
    std::filesystem::create_directories(snapshot);
    const std::string link = join_path(snapshot, file);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(std::string("../../blobs/") + blob, link);
  };
  const auto names_other = [&] {
    const Error error = catch_error([&] { find_place(join_path(folder, "snapshots/" + torn)); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    return error.hint_text().find(other) != std::string::npos;
  };
  add(torn, "model.safetensors", "gone");
  add(other, "model.safetensors", "there");
  add(other, "config.json", "gone");
  EXPECT_FALSE(names_other());
  add(other, "config.json", "there");
  EXPECT_TRUE(names_other());
}

}  // namespace
}  // namespace hfshard
