#include <cstdint>
#include <filesystem>
#include <functional>
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

// With --in-place, nothing is copied without a side file, however small it is.
TEST(Link, InPlaceNamesTheFirstLeavesThatItCannotLink) {
  const TempDir dir;
  for (const int count : {8, 9}) {
    SafetensorsBuilder builder;
    for (int i = 0; i < count; ++i) builder.tensor(fmt::format("cast{}", i), DType::bf16, {2});
    const std::string source = dir / fmt::format("source{}", count);
    write_text(source + "/model.safetensors", builder.tensor("kept", DType::bf16, {2}).build());
    PlanOptions options;
    options.mapping.scheme = "hf";
    options.mapping.casts = {{"cast*", DType::f32}};
    options.encoding.checksum = false;
    RunOptions run;
    Reporter quiet;
    const Error error = catch_error([&] { link(source, options, {.in_place = true}, run, quiet); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string text = error.sentence();
    EXPECT_TRUE(text.starts_with(fmt::format("{} leaves can't be linked (cast0: ", count))) << text;
    EXPECT_EQ(text.ends_with("; and 1 more)"), count == 9) << text;
    EXPECT_NE(text.find("; cast7: "), std::string::npos) << text;
    EXPECT_EQ(text.find("cast8"), std::string::npos) << text;
    EXPECT_EQ(error.hint_text(),
              "pass --side-file to write converted copies next to the source's files");
  }
}

// Steps get their own numbers, so nothing else may choose one.
TEST(ConvertSteps, NothingElseChoosesAStepAndOneProcessWrites) {
  const TempDir dir;
  SafetensorsBuilder().tensor("x", DType::u8, {4}).write(dir / "model.safetensors");
  Reporter quiet;
  std::size_t calls = 0;
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  RunOptions run;
  run.out = dir / "root";
  hfshard::convert(dir / "model.safetensors", plain, run, quiet);
  const auto reshard = [&](const std::function<void(SourceName&, PlanOptions&, RunOptions&)>& set) {
    SourceName source(dir / "root");
    PlanOptions options = plain;
    options.tree.same = true;
    RunOptions again = run;
    again.out = dir / "again";
    set(source, options, again);
    return convert_steps(source, options, {.all = true, .last = 0, .numbers = {}}, again, quiet,
                         [&](const ConvertReport& /*report*/) { ++calls; });
  };
  const std::function<void(SourceName&, PlanOptions&, RunOptions&)> refused[] = {
      [](auto&, auto& options, auto&) { options.tree.same = false; },
      [](auto&, auto& options, auto&) { options.tree.step = 0; },
      [](auto&, auto& options, auto&) { options.step = 0; },
      [](auto& source, auto&, auto&) { source.step = 0; },
      [](auto& source, auto&, auto&) { source.text += "/0/items"; },
      [&](auto& source, auto&, auto&) { source.text = dir / "model.safetensors"; },
      [](auto&, auto&, auto& again) { again.workers = 2; },
  };
  for (const auto& set : refused) {
    EXPECT_EQ(catch_error([&] { reshard(set); }).code(), ErrorCode::usage) << &set - refused;
    EXPECT_FALSE(std::filesystem::exists(dir / "again"));
  }
  std::filesystem::copy(dir / "root/0", dir / "root/5", std::filesystem::copy_options::recursive);
  for (const bool is_done : {false, true}) {
    const std::vector<ConvertReport> reports = reshard([](auto&, auto&, auto&) {});
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].plan.other_steps, std::vector<std::uint64_t>{5});
    EXPECT_EQ(reports[1].plan.other_steps, std::vector<std::uint64_t>{0});
    for (const ConvertReport& report : reports) EXPECT_EQ(report.run.already_done, is_done);
    EXPECT_EQ(reports[0].run.path, dir / "again/0/items");
    EXPECT_EQ(reports[1].run.path, dir / "again/5/items");
  }
  EXPECT_EQ(calls, 4U);
  // A directory that isn't a checkpoint takes them too.
  write_text(dir / "torch/notes.txt", "mine");
  for (const bool is_done : {false, true}) {
    const std::vector<ConvertReport> reports =
        reshard([&](auto& /*source*/, auto& options, auto& again) {
          options.target = "dcp";
          again.out = dir / "torch";
        });
    ASSERT_EQ(reports.size(), 2U);
    for (const ConvertReport& report : reports) EXPECT_EQ(report.run.already_done, is_done);
  }
}

}  // namespace
}  // namespace hfshard
