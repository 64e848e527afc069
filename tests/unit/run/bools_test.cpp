// A bool is 0 or 1. Another byte would be true to one reader and false to another.

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(Bools, AByteThatIsNoBoolIsCorruptWhereverItIs) {
  for (const char* target : {"dcp", "orbax", "safetensors"}) {
    const TempDir dir;
    PlanOptions options;
    options.target = target;
    options.mapping.scheme = "hf";
    const auto converted = [&](const std::string& bytes) {
      SafetensorsBuilder()
          .tensor("mask", DType::boolean, {bytes.size()}, bytes)
          .write(dir / "source/model.safetensors");
      convert(small_plan(dir / "source", options), to_output(dir / "out"));
    };
    for (const std::size_t at : {0U, 500U, 999U}) {
      std::string bytes(1000, '\1');
      bytes[at] = '\2';
      const Error error = catch_error([&] { converted(bytes); });
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << target << at;
      EXPECT_EQ(error.tensor(), "mask");
      remove_tree(out_paths(dir / "out").staging);
    }
    std::string good(1000, '\0');
    good[7] = '\1';
    converted(good);
  }
}

}  // namespace
}  // namespace hfshard
