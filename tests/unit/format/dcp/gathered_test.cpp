// Parts of tensors that ranks wrote each for itself, in files of torch's HuggingFace writer.

#include <array>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "catalog/checkpoint.h"
#include "format/formats.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

std::string name_of_shard(int number) {
  return fmt::format("shard-{:05}-model-00001-of-00001.safetensors", number);
}

// Rows of a tensor w of two columns, from `first` on.
std::string shard_file(std::uint64_t first, std::uint64_t rows, const std::string& dtype = "U8") {
  const std::string header = fmt::format(
      R"({{"__metadata__":{{"DCP_SHARDING_INFO":"{{\"w\":{{\"saved_offsets\":[{},0]}}}}"}},)"
      R"("w":{{"dtype":"{}","shape":[{},2],"data_offsets":[0,{}]}}}})",
      first, dtype, rows, 2 * rows);
  std::array<std::byte, 8> length{};
  store_le<std::uint64_t>(length.data(), header.size());
  std::string out(as_text(length));
  out += header;
  for (std::uint64_t i = 0; i < 2 * rows; ++i) out.push_back(static_cast<char>(2 * first + i));
  return out;
}

ErrorCode code_of_place(const TempDir& dir) {
  return catch_error([&] { open_checkpoint(dir.path()); }).code();
}

TEST(DcpGathered, ShardsAreOneTensorAndNoModel) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  write_text(dir / name_of_shard(2), shard_file(3, 2));
  write_text(dir / name_of_shard(3), shard_file(5, 0));
  EXPECT_FALSE(is_model_place(dir.path()));
  const auto opened = open_checkpoint(dir.path());
  ASSERT_EQ(opened->catalog().tensors.size(), 1U);
  EXPECT_EQ(opened->catalog().tensors[0].name, "w");
  EXPECT_EQ(opened->catalog().tensors[0].shape, (Shape{5, 2}));
  EXPECT_EQ(opened->catalog().notes.size(), 1U);
}

TEST(DcpGathered, HolesOverlapsAndOtherDtypesAreErrors) {
  const TempDir dir;
  write_text(dir / name_of_shard(1), shard_file(0, 3));
  write_text(dir / name_of_shard(3), shard_file(3, 2));
  EXPECT_EQ(code_of_place(dir), ErrorCode::not_found) << "shard 2 is missing";
  write_text(dir / name_of_shard(2), shard_file(4, 1));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "an overlap";
  write_text(dir / name_of_shard(2), shard_file(3, 2));
  EXPECT_EQ(open_checkpoint(dir.path())->catalog().tensors.size(), 1U) << "the same twice";
  write_text(dir / name_of_shard(3), shard_file(6, 2));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "a hole";
  write_text(dir / name_of_shard(3), shard_file(5, 2, "I8"));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt) << "another dtype";
  write_text(dir / name_of_shard(3), shard_file(5, 2, "X9"));
  EXPECT_EQ(code_of_place(dir), ErrorCode::unsupported);
  write_text(dir / name_of_shard(3), shard_file(UINT64_MAX, 2));
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt);
  write_text(dir / name_of_shard(3), "short");
  EXPECT_EQ(code_of_place(dir), ErrorCode::corrupt);
}

TEST(DcpGathered, DataOfARankWithoutMetadataIsUnfinished) {
  const TempDir dir;
  write_text(dir / "__0_0.distcp", "");
  EXPECT_EQ(code_of_place(dir), ErrorCode::not_found);
  write_text(dir / "__1.metadata", "");
  const Error error = catch_error([&] { open_checkpoint(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), dir / "__0_0.distcp");
}

}  // namespace
}  // namespace hfshard
