#include "format/orbax/other_files.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/temp_dir.h"

namespace hfshard::format::orbax {
namespace {

using OtherNames = std::vector<std::string>;

TEST(OtherFiles, AreNamedUnlessARecordExplainsThem) {
  const TempDir dir;
  for (const char* name : {"config.json", "a/.zarray", "ocdbt.process_0/d/x", "_METADATA"})
    write_text(dir / name, "");
  const StorePath item(dir.path());
  EXPECT_EQ(other_files(item, {"a"}), (OtherNames{"config.json"}));
  write_text(dir / "hfshard.json", "{}");
  EXPECT_TRUE(other_files(item, {"a"}).empty());
}

TEST(OtherFiles, AreNoneOfOrbaxNorOfTensorStoreNorOfZarr) {
  const TempDir dir;
  for (const char* name :
       {"_METADATA", "manifest.ocdbt", "checkpoint", "_CHECKPOINT_METADATA", "commit_success.txt",
        "_sharding", "_strings.json", "array_metadatas/x", "zarr.json", "d/x", "ocdbt_data/x",
        "ocdbt_meta/x", ".zattrs", ".zgroup", ".zmetadata", "ocdbt.process_12/x"})
    write_text(dir / name, "");
  EXPECT_EQ(other_files(StorePath(dir.path()), {}), OtherNames());
}

TEST(OtherFiles, ChunksAreThoseOfATreeThatIsOneArray) {
  const TempDir dir;
  for (const char* name : {"0", "0.1", "c/0", "0.x", "a/b/.zarray", "b/x"})
    write_text(dir / name, "");
  const StorePath item(dir.path());
  EXPECT_EQ(other_files(item, {"a/b"}), (OtherNames{"0", "0.1", "0.x", "b", "c"}));
  EXPECT_EQ(other_files(item, {"", "a/b"}), (OtherNames{"0.x", "b"}));
}

}  // namespace
}  // namespace hfshard::format::orbax
