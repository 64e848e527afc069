#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/text.h"
#include "run/check/manifest_decode.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "support/catch_error.h"
#include "unit/run/check/two_rules.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(LinkedFiles, AreThoseThatALinkedLeafReads) {
  TwoRules made;
  made.catalog.files.resize(3);
  made.catalog.tensors[0].file = 0;
  made.catalog.tensors[1].file = 2;
  made.catalog.tensors[2].file = 1;
  EXPECT_EQ(made.build().linked_files(), std::vector<std::uint32_t>{1});
}

}  // namespace
}  // namespace hfshard
