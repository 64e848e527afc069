#include "service/header_size.h"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/sizes.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Writes a file with a header of that length, which can't be parsed.
void write_header(const std::string& path, std::uint64_t bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(bytes >> (8 * i) & 0xff);
  write_text(path, length);
  std::filesystem::resize_file(path, 8 + bytes);  // sparse
}

// The needs of a plan with many tensors are known before they are parsed.
TEST(HeaderSize, TooMuchForTheBudgetIsRefusedUnread) {
  const TempDir dir;
  write_header(dir / "model-00001-of-00002.safetensors", 20 * kMiB);
  write_header(dir / "model-00002-of-00002.safetensors", 30 * kMiB);
  write_text(dir / "tokenizer.json", "{}");
  RunOptions run;
  run.max_memory_bytes = 512 * kMiB;
  const Error error = catch_error([&] { check_header_size(dir.path(), {}, run); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.hint_text(), "pass --max-memory 600MiB or more");
  EXPECT_NE(error.sentence().find("50 MiB"), std::string::npos) << error.sentence();
  run.max_memory_bytes = 600 * kMiB;
  EXPECT_NO_THROW(check_header_size(dir.path(), {}, run));
  run.max_memory_bytes = 256 * kMiB;
  EXPECT_NO_THROW(check_header_size(dir / "model-00001-of-00002.safetensors", {}, run));
  EXPECT_THROW(check_header_size(dir / "model-00002-of-00002.safetensors", {}, run), Error);
  PlanOptions part;
  part.mapping.include = {"*.weight"};  // others are only looked at
  EXPECT_NO_THROW(check_header_size(dir.path(), part, run));
}

// The reader reports the damage.
TEST(HeaderSize, DamagedFilesPass) {
  const TempDir dir;
  write_text(dir / "short.safetensors", "1234");
  write_text(dir / "wrong.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  std::filesystem::create_directory(dir / "odd.safetensors");
  RunOptions run;
  run.max_memory_bytes = 1;
  EXPECT_NO_THROW(check_header_size(dir.path(), {}, run));
  EXPECT_NO_THROW(check_header_size(dir / "absent", {}, run));
}

}  // namespace
}  // namespace hfshard
