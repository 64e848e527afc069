#include "format/orbax/other_files.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/temp_dir.h"

namespace hfshard::format::orbax {
namespace {

TEST(OtherFiles, AreNamedUnlessARecordExplainsThem) {
  const TempDir dir;
  for (const char* name : {"config.json", "a/.zarray", "ocdbt.process_0/d/x", "_METADATA"})
    write_text(dir / name, "");
  const StorePath item(dir.path());
  EXPECT_EQ(other_files(item, {"a"}), (std::vector<std::string>{"config.json"}));
  write_text(dir / "hfshard.json", "{}");
  EXPECT_TRUE(other_files(item, {"a"}).empty());
}

}  // namespace
}  // namespace hfshard::format::orbax
