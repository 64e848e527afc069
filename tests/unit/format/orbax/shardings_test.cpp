#include "format/orbax/shardings.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

using Axes = std::vector<std::vector<std::string>>;

Catalog catalog_of_two() {
  Catalog out;
  out.tensors.resize(2);
  out.tensors[0].name = "a";
  out.tensors[0].shape = {4, 6, 2};
  out.tensors[1].name = "b.c";
  out.tensors[1].shape = {8};
  return out;
}

PerLeaf<ArraySharding> shardings_in(std::string_view text) {
  return parse_shardings(text, "_sharding", catalog_of_two());
}

// Orbax 0.12 writes them this way. Keys are `a`, `b.c` and `x`.
TEST(Shardings, NameTheMeshAxesOfEachDim) {
  const auto found = shardings_in(
      R"({"YQ==":"{\"sharding_type\": \"NamedSharding\", \"shape\": [2, 2], )"
      R"(\"axis_names\": [\"x\", \"y\"], \"partition_spec\": [null, [\"x\", \"y\"], null]}",)"
      R"("Yi5j":"{\"sharding_type\": \"NamedSharding\", \"partition_spec\": [\"y\"]}",)"
      R"("eA==":"{\"sharding_type\": \"NamedSharding\", \"partition_spec\": [\"y\"]}"})");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].mesh_axes, (Axes{{}, {"x", "y"}, {}}));
  EXPECT_EQ(found[1].mesh_axes, (Axes{{"y"}}));
}

TEST(Shardings, DimsThatASpecOmitsHaveNoAxes) {
  const auto found = shardings_in(
      R"({"YQ==":"{\"sharding_type\": \"NamedSharding\", \"partition_spec\": [\"x\"]}"})");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].mesh_axes, (Axes{{"x"}, {}, {}}));
  EXPECT_EQ(found[1].mesh_axes, Axes());
}

TEST(Shardings, WithoutAxesThereAreNone) {
  EXPECT_TRUE(shardings_in("{}").empty());
  EXPECT_TRUE(
      shardings_in(
          R"({"YQ==":"{\"sharding_type\": \"SingleDeviceSharding\", \"device_str\": \"cpu\"}",)"
          R"("Yi5j":"{\"sharding_type\": \"NamedSharding\", \"partition_spec\": [null]}"})")
          .empty());
  EXPECT_TRUE(
      shardings_in(R"({"YQ==":"{\"sharding_type\": \"NamedSharding\", \"shape\": [2]}"})").empty());
}

TEST(Shardings, WhatIsNoneIsRefused) {
  for (const char* text :
       {"[]", R"({"YQ==": 3})", R"({"YQ==": "3"})", R"({"Y":"{}"})", R"({"YQ==":"{}"})",
        R"({"Yi5j":"{\"sharding_type\":\"NamedSharding\",\"partition_spec\":[null,\"y\"]}"})",
        R"({"YQ==":"{\"sharding_type\":\"NamedSharding\",\"partition_spec\":[3]}"})"}) {
    const Error error = catch_error([&] { shardings_in(text); });
    EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::bad_input) << text;
    EXPECT_EQ(error.file(), "_sharding") << text;
  }
}

TEST(Shardings, AFailedReadIsNotANote) {
  const TempDir dir;
  write_text(dir / "_sharding", "{}");
  Catalog catalog = catalog_of_two();
  const SyscallFault fault("pread", 1, EIO);
  const Error error = catch_error([&] { read_shardings(dir.path(), catalog); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_TRUE(catalog.notes.empty());
}

}  // namespace
}  // namespace hfshard::format::orbax
