#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Keeps the size of the planned output.
class Planned final : public Reporter {
 public:
  void planned(const PlanSummary& plan) override { output_bytes = plan.output_bytes; }
  std::uint64_t output_bytes = 0;
};

// Writes two tensors without data: 4 bytes, and rows of 32 KiB.
void write_sparse(const std::string& path, std::uint64_t rows) {
  const std::uint64_t end = 4 + rows * 32768;
  const std::string header =
      fmt::format(R"({{"kept":{{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}},)"
                  R"("cast":{{"dtype":"BF16","shape":[{},16384],"data_offsets":[4,{}]}}}})",
                  rows, end);
  SafetensorsBuilder().raw_header(header).write(path);
  std::filesystem::resize_file(path, 8 + header.size() + end);
}

// An output that exists is refused next, before anything is written.
TEST(Link, CopiesAtMostAGibibyteWithoutASideFile) {
  const TempDir dir;
  write_text(dir / "out/notes.txt", "mine");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.casts = {{"cast", DType::f32}};
  options.encoding.checksum = false;
  RunOptions run;
  run.out = dir / "out";
  const std::string source = dir / "model.safetensors";
  for (const auto& [rows, code] : std::vector<std::pair<std::uint64_t, ErrorCode>>{
           {16384, ErrorCode::conflict}, {16385, ErrorCode::usage}}) {
    write_sparse(source, rows);
    Planned planned;
    const Error error = catch_error([&] { link(source, options, {}, run, planned); });
    EXPECT_EQ(planned.output_bytes, rows * 65536);
    EXPECT_EQ(error.code(), code) << error.format();
  }
  Reporter quiet;
  const Error error = catch_error([&] { link(source, options, {.side_file = true}, run, quiet); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.format();
}

}  // namespace
}  // namespace hfshard
