// A bool is 0 or 1. Another byte would be true to one reader and false to another.

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
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
      EXPECT_EQ(error.file(), dir / "source/model.safetensors");
      EXPECT_FALSE(error.rule().empty());
      remove_tree(out_paths(dir / "out").staging);
    }
    std::string good(1000, '\0');
    good[7] = '\1';
    converted(good);
  }
}

TEST(Bools, AByteOfAPieceThatIsNoBoolIsCorrupt) {
  const TempDir dir;
  std::string bytes(1000, '\1');
  bytes[700] = '\2';
  TorchCheckpoint made;
  made.tensor("mask", DType::boolean, {1000});
  for (const std::uint64_t begin : {0U, 500U}) made.part({begin}, {500}, bytes, false);
  made.write(dir / "source");
  PlanOptions options = small_options();
  options.mapping.scheme = "hf";
  for (const char* target : {"dcp", "orbax", "safetensors"}) {
    options.target = target;
    const Plan plan = small_plan(dir / "source", options);
    const Error error = catch_error([&] { convert(plan, to_output(dir / target)); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << target;
    EXPECT_NE(error.sentence().find("is the byte 2"), std::string::npos) << error.sentence();
    EXPECT_EQ(error.tensor(), "mask");
    EXPECT_FALSE(error.rule().empty());
  }
}

}  // namespace
}  // namespace hfshard
