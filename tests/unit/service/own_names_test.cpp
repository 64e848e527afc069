#include "service/own_names.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

TEST(WithoutWrappers, AWrapperIsAWholeModule) {
  EXPECT_EQ(without_wrappers("a._orig_mod.b"), "a.b");
  EXPECT_EQ(without_wrappers("_orig_mod.b"), "b");
  EXPECT_EQ(without_wrappers("a.my_orig_mod.b"), "a.my_orig_mod.b");
  EXPECT_EQ(without_wrappers("my_orig_mod._orig_mod.b"), "my_orig_mod.b");
}

TEST(OwnNamesOfAModel, AModuleAroundTheModelCanHaveOneLetter) {
  const Catalog files = files_of("qwen3");
  for (const std::string& outer : {"m.", "net."}) {
    std::vector<std::string> names;
    std::vector<std::string> stored;
    for (const TensorInfo& info : files.tensors) {
      names.push_back(info.name);
      stored.push_back(outer + info.name);
    }
    const OwnNames own = own_names(stored, files.config_text, "", {});
    EXPECT_EQ(own.names, names);
    EXPECT_EQ(own.notes, (std::vector<std::string>{"hfshard removed the wrapper \"" + outer +
                                                   "\" from every tensor name"}));
  }
}

}  // namespace
}  // namespace hfshard
