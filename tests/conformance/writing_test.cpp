// The output of a run in a format comes back through the format's own reader. This is for every
// format of the table that keeps its output, and the toy format. Expected values come from the
// bytes of the source, or from another program's conversion (tests/oracle). tests/interop shows
// that the formats' other readers read the same.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "conformance/samples.h"
#include "conformance/stored_arrays.h"
#include "conformance/tested_formats.h"
#include "run/check/output_manifest.h"
#include "run/check/read_back.h"
#include "run/run_support.h"
#include "support/catch_error.h"
#include "support/checkpoint_builder.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "support/test_data.h"

namespace hfshard::conformance {
namespace {

std::vector<const Format*> writing_formats() {
  std::vector<const Format*> out;
  for (const Format* format : tested_formats()) {
    if (format->writes() && !format->discards()) out.push_back(format);
  }
  return out;
}

// The mesh splits axis 1, finely enough for inner chunks. Other axes are cut by default.
PlanOptions options_of(const Encoding& encoding = {}) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.stacked = false;
  options.rules_text = R"([["dim_0", []], ["dim_1", ["tensor"]], ["dim_2", []], ["dim_3", []],
                           ["dim_4", []]])";
  options.meshes = {"tensor=4"};
  options.chunk_bytes = 300;
  options.shard_bytes = std::uint64_t{6} << 10;
  options.encoding = encoding;
  return options;
}

// With these, there are many chunks, tiles, files and journal records.
Limits limits_of_test() {
  Limits limits = small_limits();
  limits.outer_shards = 2;
  limits.alignment_bytes = 64;
  limits.file_min_bytes = limits.file_max_bytes = std::uint64_t{6} << 10;
  limits.merge_bytes = 1024;
  limits.commit_bytes = 2048;
  return limits;
}

class Writing : public testing::TestWithParam<const Format*> {
 protected:
  Writing() {
    for (std::size_t i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (!lacks(dtype)) add("p.types." + std::string(to_string(dtype)), dtype, {13, 8});
    }
    add("p.scalar", DType::f16, {});
    add("p.empty", DType::f32, {0, 4});
    add("p.five", DType::i16, {3, 4, 2, 3, 5});
    add("p.ragged", DType::bf16, {211, 8});
    add("p.split", DType::f32, {64, 32});
    add("p.vector", DType::f32, {301});
    add("z." + std::string(4096, 'n'), DType::f32, {3});
    std::ranges::sort(arrays_, {}, &Expected::name);
    source_.write(dir_ / "in/model.safetensors");
  }

  const Format& format() const { return *GetParam(); }
  FileLayout layout() const { return format().layout(); }
  // Formats that store arrays whole don't encode them.
  std::vector<Encoding> encodings() const {
    if (layout().whole_arrays || !layout().fixed_checksum.empty()) return {{}};
    if (!layout().uncompressed.empty()) return {{true, 0}, {false, 0}};
    return {{true, 0}, {false, 0}, {true, 1}, {false, 3}};
  }
  std::vector<int> zstd_levels() const {
    return layout().uncompressed.empty() ? std::vector<int>{0, 1} : std::vector<int>{0};
  }
  // Returns the front of a data file.
  std::string leading_of(const Plan& plan, std::uint32_t file) const {
    if (plan.array_files() == nullptr) return layout().leading;
    std::string out;
    format().write_leading(plan.model().leaves, plan.array_files()->in_file(file),
                           [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
    return out;
  }
  // Asks form() with a matrix. No array of a source may have such a dtype.
  bool lacks(DType dtype) const {
    try {
      format().form({{"x", dtype, {2, 8}}, {}, {}}, {{2, 8}, {2, 8}, {2, 8}}, {});
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_EQ(error.tensor(), "x");
      return true;
    }
  }
  void add(const std::string& name, DType dtype, const Shape& shape) {
    source_.tensor(name, dtype, shape);
    arrays_.push_back({name, dtype, shape, source_.data_of(name)});
  }

  Plan plan_of(const PlanOptions& options, const Limits& limits = limits_of_test()) const {
    return make_plan(dir_ / "in", options, format(), limits);
  }
  RunResult write(const Plan& plan, const RunOptions& options, const Hook& hook = {}) const {
    QuietReporter reporter;
    return run_convert(plan, format(), options, reporter, hook);
  }
  std::string step_of(const std::string& out, std::uint64_t step = 0) const {
    const std::string directory = layout().step_directory(step);
    return directory.empty() ? out : join_path(out, directory);
  }
  VerifyResult verify(const std::string& out) const {
    QuietReporter reporter;
    const std::string step = step_of(out);
    const Limits limits = limits_of_test();
    RunOptions options = to_output(out);
    options.limits = &limits;
    return verify_digests(*format().open(step), read_manifest(join_path(step, kManifestName)),
                          options, reporter);
  }

  const TempDir dir_;
  SafetensorsBuilder source_;
  std::vector<Expected> arrays_;
};

TEST_P(Writing, EveryArrayOfAnyGridComesBackBitForBit) {
  for (const Encoding& encoding : encodings()) {
    const std::string out = dir_ / fmt::format("out-{}-{}", encoding.checksum, encoding.zstd_level);
    SCOPED_TRACE(out);
    const Plan plan = plan_of(options_of(encoding));
    EXPECT_TRUE(write(plan, to_output(out)).published);
    const auto opened = format().open(out);
    EXPECT_EQ(opened->catalog().tensors.size(), arrays_.size());
    EXPECT_EQ(differing_arrays(*opened, arrays_), "");
    EXPECT_TRUE(verify(out).differences.empty());
  }
}

// The sizes above produce the cases that the other tests need.
TEST_P(Writing, TheGridsAreOfEveryKind) {
  const Plan plan = plan_of(options_of());
  EXPECT_GE(plan.file_count(), 4U);
  EXPECT_GE(plan.groups().size(), 10U);
  if (layout().whole_arrays) {  // units are cut, and some are shorter
    bool is_short = false;
    for (UnitRef at; at.group < plan.groups().size(); at = plan.next(at))
      is_short |= plan.region_bytes(at) < plan.units()[plan.group_of(at).leaf].region_bytes();
    EXPECT_TRUE(is_short);
    EXPECT_GT(plan.totals().units, 2 * plan.groups().size());
    return;
  }
  bool ragged = false;
  bool inner = false;
  for (std::size_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    const Shape& shape = plan.model().leaves[leaf].shape;
    inner = inner || plan.grids()[leaf].has_inner();
    for (std::size_t d = 0; d < shape.rank(); ++d)
      ragged = ragged || shape[d] % plan.grids()[leaf].chunk[d] != 0;
  }
  EXPECT_TRUE(ragged);
  EXPECT_EQ(inner, layout().inner_chunks);
}

TEST_P(Writing, ADtypeThatItLacksIsRefusedByName) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!lacks(dtype)) continue;
    SCOPED_TRACE(to_string(dtype));
    SafetensorsBuilder source;
    source.tensor("p.good", DType::f32, {4}).tensor("p.bad", dtype, {2, 8});
    source.write(dir_ / "lacking/model.safetensors");
    const Error error =
        catch_error([&] { make_plan(dir_ / "lacking", options_of(), format(), limits_of_test()); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "p.bad");
  }
}

// Data files have the names, alignment and front that the format requires.
TEST_P(Writing, DataFilesAreAsTheFormatWantsThem) {
  const Plan plan = plan_of(options_of());
  write(plan, to_output(dir_ / "out"));
  for (std::uint32_t file = 0; file < plan.file_count(); ++file) {
    const std::string path =
        join_path(join_path(step_of(dir_ / "out"), layout().item), plan.file_path(file));
    EXPECT_EQ(plan.file_path(file), layout().data_file(file, plan.file_count()));
    EXPECT_TRUE(read_file(path).starts_with(leading_of(plan, file))) << path;
  }
  for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    const std::uint64_t element = size_bits(plan.model().leaves[leaf].dtype) / 8;
    const std::uint64_t alignment =
        layout().whole_arrays ? element : std::max<std::uint64_t>(layout().alignment_bytes, 1);
    for_each_chunk(chunk_counts(plan.model().leaves[leaf].shape, plan.grids()[leaf].chunk),
                   [&](const Shape& chunk) {
                     const Place place = plan.place(leaf, chunk);
                     EXPECT_GE(place.offset_bytes, leading_of(plan, place.file).size());
                     EXPECT_EQ(place.offset_bytes % alignment, 0U);
                     return true;
                   });
  }
}

// Another program's bytes: MaxText's own converter made expected.json.
TEST_P(Writing, ATransposedAndStackedModelComesBackAsMaxTextHasIt) {
  const std::string source = copy_fixture("qwen3", dir_ / "qwen3");
  const Json wanted =
      parse_json(read_file(test_data("oracle/qwen3/expected.json")), "expected.json");
  PlanOptions options = small_options();
  options.encoding.zstd_level = zstd_levels().back();
  write(make_plan(source, options, format(), small_limits()), to_output(dir_ / "out"));
  const auto opened = format().open(dir_ / "out");
  for (const auto& [path, leaf] : wanted.at("scanned").as_object()) {
    const std::string name = "params.params." + join(split(path, '/'), ".");
    ASSERT_TRUE(opened->catalog().find(name).has_value()) << name;
    EXPECT_EQ(sha256_hex(read_array(*opened, name)), leaf.at("sha256").as_string()) << name;
  }
  EXPECT_TRUE(verify(dir_ / "out").differences.empty());
}

// The run is stopped after each of its tiles, by an error or as by Ctrl-C, and then resumed.
TEST_P(Writing, AbandonedAnywhereItGoesOnToTheSameBytes) {
  for (const int zstd_level : zstd_levels()) {
    const Plan plan = plan_of(options_of({true, zstd_level}));
    std::atomic<int> tiles = 0;
    write(plan, to_output(dir_ / "whole"),
          [&](Stage stage, const Tile&) { tiles += stage == Stage::commit ? 1 : 0; });
    const auto whole = tree_of(dir_ / "whole");
    ASSERT_GE(tiles, 10);
    bool by_signal = false;
    for (int nth = 0; nth < tiles; nth += 1 + tiles / cases(12)) {
      SCOPED_TRACE(fmt::format("{} of {} tiles, level {}", nth, tiles.load(), zstd_level));
      by_signal = !by_signal;
      std::atomic<bool> stop = false;
      std::atomic<int> seen = 0;
      RunOptions options = to_output(dir_ / "out");
      options.stop = &stop;
      const Error error = catch_error([&] {
        write(plan, options, [&](Stage stage, const Tile&) {
          if (stage != Stage::store || seen++ != nth) return;
          if (!by_signal) throw Error(ErrorCode::io, "planted");
          stop = true;
        });
      });
      ASSERT_TRUE(error.code() == ErrorCode::io || error.code() == ErrorCode::cancelled);
      EXPECT_FALSE(exists(dir_ / "out"));
      RunOptions again = to_output(dir_ / "out");
      again.resume = true;
      EXPECT_TRUE(write(plan, again).published);
      EXPECT_EQ(differing(tree_of(dir_ / "out"), whole), "");
      EXPECT_TRUE(write(plan, again).already_done);
      remove_tree(dir_ / "out");
    }
    remove_tree(dir_ / "whole");
  }
}

TEST_P(Writing, WorkersMakeTheSameBytes) {
  for (const int zstd_level : zstd_levels()) {
    const Plan plan = plan_of(options_of({true, zstd_level}));
    const std::string whole = dir_ / fmt::format("whole-{}", zstd_level);
    write(plan, to_output(whole));
    for (const std::uint32_t workers : {2U, 3U}) {
      const std::string out = dir_ / fmt::format("shared-{}-{}", zstd_level, workers);
      for (std::uint32_t worker = workers; worker-- > 0;) {
        RunOptions options = to_output(out);
        options.worker = worker;
        options.workers = workers;
        EXPECT_FALSE(write(plan, options).published);
        EXPECT_FALSE(exists(out));
      }
      QuietReporter reporter;
      EXPECT_TRUE(run_finalize(plan, format(), to_output(out), reporter).published);
      EXPECT_EQ(differing(tree_of(out), tree_of(whole)), "");
      EXPECT_TRUE(run_finalize(plan, format(), to_output(out), reporter).already_done);
    }
  }
}

TEST_P(Writing, WhatIsPublishedIsKnownByItsPlan) {
  if (!layout().has_steps) return;
  const std::string out = dir_ / "out";
  const Plan plan = plan_of(options_of());
  write(plan, to_output(out));
  const Found root = format().recognise(out).value();
  EXPECT_EQ(root.directory, step_of(out));
  EXPECT_EQ(root.plan_id, plan.id());
  EXPECT_EQ(root.steps, (std::vector<Found::Step>{{0, step_of(out), true}}));
  EXPECT_EQ(format().recognise(step_of(out)).value().plan_id, plan.id());
  EXPECT_EQ(catch_error([&] { write(plan, to_output(out)); }).code(), ErrorCode::conflict);
  // A higher step next to it becomes the default, by number, not as text.
  PlanOptions options = options_of();
  options.step = 10;
  const Plan later = plan_of(options);
  write(later, to_output(out));
  options.step = 9;
  write(plan_of(options), to_output(out));
  EXPECT_EQ(format().recognise(out).value().plan_id, later.id());
  EXPECT_EQ(format().recognise(out).value().directory, step_of(out, 10));
  EXPECT_EQ(format().recognise(step_of(out)).value().plan_id, plan.id());
  // One step is replaced, and the others stay.
  options.step = 0;
  options.chunk_bytes /= 2;
  const Plan other = plan_of(options);
  RunOptions over = to_output(out);
  over.overwrite = true;
  const auto kept = tree_of(step_of(out, 10));
  write(other, over);
  EXPECT_EQ(format().recognise(step_of(out)).value().plan_id, other.id());
  EXPECT_EQ(differing(tree_of(step_of(out, 10)), kept), "");
  EXPECT_EQ(differing_arrays(*format().open(step_of(out)), arrays_), "");
}

TEST_P(Writing, WithoutStepsAWholeOutputIsReplacedByAnother) {
  if (layout().has_steps) return;
  const std::string out = dir_ / "out";
  const Plan plan = plan_of(options_of());
  EXPECT_TRUE(write(plan, to_output(out)).published);
  const Found found = format().recognise(out).value();
  EXPECT_EQ(found.directory, out);
  EXPECT_EQ(found.plan_id, plan.id());
  EXPECT_TRUE(found.steps.empty());
  const auto first = tree_of(out);
  const auto refused = [&](const Plan& other, const RunOptions& options) {
    const Error error = catch_error([&] { write(other, options); });
    EXPECT_EQ(differing(tree_of(out), first), "");
    return error.code();
  };
  PlanOptions options = options_of();
  options.shard_bytes *= 2;
  Limits limits = limits_of_test();
  limits.file_min_bytes = limits.file_max_bytes *= 2;
  const Plan other = plan_of(options, limits);
  RunOptions over = to_output(out);
  EXPECT_EQ(refused(other, over), ErrorCode::conflict);
  over.overwrite = true;
  // Another program's file would be lost with the directory.
  write_text(join_path(out, "README.md"), "mine");
  EXPECT_EQ(catch_error([&] { write(other, over); }).code(), ErrorCode::conflict);
  remove_tree(join_path(out, "README.md"));
  EXPECT_EQ(differing(tree_of(out), first), "");
  EXPECT_TRUE(write(other, over).published);
  EXPECT_EQ(format().recognise(out).value().plan_id, other.id());
  EXPECT_LT(other.file_count(), plan.file_count());
  EXPECT_EQ(differing_arrays(*format().open(out), arrays_), "");
  EXPECT_EQ(tree_of(out).size(), first.size() - (plan.file_count() - other.file_count()));
  // Another program's output isn't replaced.
  const auto input = tree_of(dir_ / "in");
  std::filesystem::copy(dir_ / "in", dir_ / "theirs");
  RunOptions theirs = to_output(dir_ / "theirs");
  theirs.overwrite = true;
  EXPECT_EQ(catch_error([&] { write(other, theirs); }).code(), ErrorCode::conflict);
  EXPECT_EQ(differing(tree_of(dir_ / "theirs"), input), "");
}

// Tries each prefix of the files in commit order that lacks the commit file.
TEST_P(Writing, WhatIsUnfinishedIsNobodysPlan) {
  const std::string out = dir_ / "out";
  const Plan plan = plan_of(options_of());
  write(plan, to_output(out));
  const std::string store = join_path(step_of(out), layout().item);
  const std::string commit = join_path(store, layout().commit_file);
  const std::string good = read_file(commit);
  const auto plan_id = [&] {
    const auto found = format().recognise(out);
    return found ? found->plan_id : std::string();
  };
  EXPECT_EQ(plan_id(), plan.id());
  remove_tree(commit);
  EXPECT_EQ(plan_id(), "");
  try {
    format().open(out);
    EXPECT_FALSE(layout().has_steps);  // there, any files are a checkpoint
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal);
  }
  RunOptions again = to_output(out);
  again.resume = true;
  EXPECT_EQ(catch_error([&] { write(plan, again); }).code(), ErrorCode::conflict);
  write_text(commit, good.substr(0, good.size() / 2));
  EXPECT_EQ(plan_id(), "");
  // The same file, of another plan.
  PlanOptions options = options_of();
  options.step = 3;
  write(plan_of(options), to_output(dir_ / "other"));
  write_text(commit, read_file(join_path(join_path(step_of(dir_ / "other", 3), layout().item),
                                         layout().commit_file)));
  EXPECT_NE(plan_id(), plan.id());
  write_text(commit, good);
  EXPECT_EQ(plan_id(), plan.id());
  EXPECT_TRUE(write(plan, again).already_done);
  // A staged tree belongs to a run. Nothing is at OUT before it publishes.
  remove_tree(out);
  catch_error([&] {
    write(plan, to_output(out), [](Stage stage, const Tile&) {
      if (stage == Stage::commit) throw Error(ErrorCode::io, "planted");
    });
  });
  EXPECT_FALSE(format().recognise(out).has_value());
  const auto staged = format().recognise(out_paths(plan, out).step);
  EXPECT_EQ(staged ? staged->plan_id : "", "");
}

// Opening, reading or verifying finds a flipped bit, or the bit doesn't matter: then every array
// comes back unchanged.
TEST_P(Writing, DamageIsFoundOrChangesNoArray) {
  std::mt19937 random(53);
  for (const Encoding& encoding : encodings()) {
    const std::string out = dir_ / "out";
    const Plan plan = plan_of(options_of(encoding));
    write(plan, to_output(out));
    std::map<std::string, std::size_t> data;  // with the start of their arrays
    for (std::uint32_t file = 0; file < plan.file_count(); ++file) {
      data[join_path(plan.files().item, plan.file_path(file))] =
          layout().whole_arrays ? leading_of(plan, file).size() : 0;
    }
    const bool framed = plan.units()[0].form.head_bytes > 0;
    for (const auto& [path, good] : tree_of(step_of(out))) {
      if (good.empty()) continue;
      const std::string file = join_path(step_of(out), path);
      SCOPED_TRACE(fmt::format("{} crc {} zstd {}", path, encoding.checksum, encoding.zstd_level));
      for (int i = 0; i < cases(6); ++i) {
        std::string bad = good;
        const std::size_t at = random() % good.size();
        bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ (1U << random() % 8));
        write_text(file, bad);
        bool found = false;
        try {
          found = !verify(out).differences.empty();
          if (!found) {
            EXPECT_EQ(differing_arrays(*format().open(out), arrays_), "") << at;
          }
        } catch (const Error& error) {
          found = true;
          EXPECT_NE(error.code(), ErrorCode::internal) << at;
        }
        // A nonzero byte of a data file is part of a piece or of the file's front. The front of
        // whole arrays can have unused words. A zstd frame has unused bits, and so have the records
        // around a piece that is an archive.
        const bool decides = (encoding.checksum || encoding.zstd_level == 0) && !framed;
        if (data.contains(path) && at >= data[path] && good[at] != 0 && decides) {
          EXPECT_TRUE(found) << at;
        }
      }
      write_text(file, good);
    }
    EXPECT_TRUE(verify(out).differences.empty());
    remove_tree(out);
  }
}

TEST_P(Writing, WhatItCannotLinkIsRefusedByItsName) {
  PlanOptions options = options_of();
  options.link = true;
  if (format().layout().linked_prefix) {
    EXPECT_GT(plan_of(options).totals().linked_leaves, 0U);
  } else {
    const Error error = catch_error([&] { plan_of(options); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.sentence().find(format().name()), std::string::npos);
  }
}

TEST(FormatTable, TheDefaultTargetIsOneThatIsKept) {
  EXPECT_EQ(&format_of(""), &default_target());
  EXPECT_EQ(std::ranges::count(writing_formats(), &default_target()), 1);
}

INSTANTIATE_TEST_SUITE_P(Formats, Writing, testing::ValuesIn(writing_formats()),
                         [](const auto& tested) { return std::string(tested.param->name()); });

}  // namespace
}  // namespace hfshard::conformance
