#include "service/place.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
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

}  // namespace
}  // namespace hfshard
