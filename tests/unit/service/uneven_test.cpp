#include "service/uneven.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

Names tower(const std::string& stem, int blocks) {
  Names out{"visual.merger.mlp.0.weight", "visual.merger.mlp.2.weight", "visual.norm.weight"};
  for (int block = 0; block < blocks; ++block) {
    for (const char* inner : {"attn.qkv.weight", "mlp.fc1.weight", "mlp.fc2.weight", "norm.weight"})
      out.push_back(fmt::format("{}{}.{}", stem, block, inner));
  }
  return out;
}

TEST(Uneven, NamesTheModuleThatLacksTensors) {
  Names names = tower("visual.blocks.", 4);
  EXPECT_EQ(uneven_modules(names), "");
  std::erase(names, "visual.blocks.3.mlp.fc1.weight");
  EXPECT_EQ(uneven_modules(names),
            "\"visual.blocks.3\" lacks a tensor that the others beside it have, such as "
            "\"visual.blocks.3.mlp.fc1.weight\"");
  std::erase(names, "visual.blocks.3.mlp.fc2.weight");
  EXPECT_EQ(uneven_modules(names),
            "\"visual.blocks.3\" lacks 2 tensors that the others beside it have, such as "
            "\"visual.blocks.3.mlp.fc1.weight\"");
}

TEST(Uneven, NamesAModuleWithoutAnyTensor) {
  Names names = tower("a.2.blocks.", 12);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("a.2.blocks.10."); });
  EXPECT_EQ(uneven_modules(names),
            "\"a.2.blocks.10\" lacks 4 tensors that the others beside it have, such as "
            "\"a.2.blocks.10.attn.qkv.weight\"");
}

TEST(Uneven, ModulesThatDifferByDesignAreLeft) {
  Names names = tower("visual.blocks.", 4);
  names.emplace_back("visual.blocks.1.extra.weight");
  EXPECT_EQ(uneven_modules(names), "");
  names = tower("visual.blocks.", 4);
  for (const int block : {1, 3})
    std::erase(names, fmt::format("visual.blocks.{}.mlp.fc1.weight", block));
  EXPECT_EQ(uneven_modules(names), "") << "every other module";
  names = tower("visual.blocks.", 2);
  std::erase(names, "visual.blocks.1.mlp.fc1.weight");
  EXPECT_EQ(uneven_modules(names), "") << "two modules";
  names = tower("visual.blocks.", 4);
  names.emplace_back("visual.blocks.999999999.attn.qkv.weight");
  EXPECT_EQ(uneven_modules(names), "") << "numbers that don't count modules";
}

TEST(Uneven, ThreeModulesOfFourTensorsAreCompared) {
  Names names = tower("visual.blocks.", 3);
  std::erase(names, "visual.blocks.1.mlp.fc1.weight");
  EXPECT_TRUE(uneven_modules(names).starts_with("\"visual.blocks.1\" lacks a tensor"));
  std::erase_if(names, [](const std::string& name) { return name.ends_with("fc2.weight"); });
  EXPECT_EQ(uneven_modules(names), "") << "three tensors";
}

TEST(Uneven, AModuleHasNoTensorWithoutAName) {
  Names names = tower("visual.blocks.", 4);
  for (const char* name : {"visual.blocks.0.", "visual.blocks.1.", "visual.blocks.3."})
    names.emplace_back(name);
  EXPECT_EQ(uneven_modules(names), "");
}

TEST(Uneven, ANumberAtTheEndOfANameIsntAModule) {
  Names names = tower("visual.blocks.", 4);
  for (const char* name : {"scales.0", "scales.1", "scales.3"}) names.emplace_back(name);
  EXPECT_EQ(uneven_modules(names), "");
}

// Alphabetically, "a.10" would come before "a.2".
TEST(Uneven, TheFirstModuleByNumberIsNamed) {
  Names names = tower("a.", 12);
  std::erase(names, "a.10.norm.weight");
  std::erase(names, "a.2.norm.weight");
  EXPECT_EQ(uneven_modules(names),
            "\"a.2\" lacks a tensor that the others beside it have, such as \"a.2.norm.weight\"");
  names = tower("a.", 4);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("a.0."); });
  EXPECT_TRUE(uneven_modules(names).starts_with("\"a.0\" lacks 4 tensors")) << "the first one";
}

// A stack can start in the middle, or its numbers can be ids.
TEST(Uneven, NumbersUpToTwiceTheCountOfModulesAreCounted) {
  const auto modules = [](const std::vector<int>& numbers) {
    Names out;
    for (const int number : numbers)
      for (const char* inner : {"a", "b", "c", "d"})
        out.push_back(fmt::format("x.{}.{}", number, inner));
    return uneven_modules(out);
  };
  EXPECT_EQ(modules({0, 1, 5}),
            "\"x.2\" lacks 4 tensors that the others beside it have, such as \"x.2.a\"");
  EXPECT_EQ(modules({0, 1, 6}), "");
  EXPECT_EQ(modules({0, 1, 2}), "");
}

}  // namespace
}  // namespace hfshard
