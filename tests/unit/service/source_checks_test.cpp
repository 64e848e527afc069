#include "service/source_checks.h"

#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

TEST(CheckRecordedOptions, OnlyTheRecordedOptionsAreAllowed) {
  const TempDir dir;
  Reporter quiet;
  PlanOptions options;
  options.mapping.options = {{"mtp", "true"}};
  EXPECT_NO_THROW(check_recorded_options(StorePath(dir.path()), options)) << "without a record";
  hfshard::convert(copy_fixture("deepseek3-mtp", dir / "source"), options, to_output(dir / "out"),
                   quiet);
  const StorePath step(dir / "out/0");
  EXPECT_NO_THROW(check_recorded_options(step, options));
  options.mapping.options = {{"mtp", "false"}};
  const Error error = catch_error([&] { check_recorded_options(step, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(),
            "hfshard.json says how this checkpoint was made, so an export can't use --option "
            "mtp=false");
}

TEST(CheckNoTree, AModelHasNoItems) {
  const TempDir dir;
  const StorePath model(copy_fixture("qwen3", dir / "source"));
  EXPECT_NO_THROW(check_no_tree(model, {}));
  TreeOptions asked;
  asked.all_items = true;
  const Error error = catch_error([&] { check_no_tree(model, asked); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--items requires a checkpoint that is a tree of arrays");
}

TEST(CheckNoTree, OnlyAFileOfTorchHasARoot) {
  const TempDir dir;
  TreeOptions asked;
  asked.root = "model";
  write_text(dir / "pytorch_model.bin", torch_archive(DType::u8, {2}, "ab"));
  EXPECT_NO_THROW(check_no_tree(StorePath(dir / "pytorch_model.bin"), asked));
  const StorePath model(copy_fixture("qwen3", dir / "source"));
  EXPECT_EQ(catch_error([&] { check_no_tree(model, asked); }).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace hfshard
