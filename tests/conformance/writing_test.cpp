// What a run writes in a format, its own reader gives back: every format of the table that keeps
// what it writes, and the toy one. What is wanted is taken from the bytes of the source, or from
// what another program made of them (tests/oracle). That the peers of a format read the same is
// shown in tests/interop.

#include <algorithm>
#include <atomic>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "conformance/samples.h"
#include "conformance/tested_formats.h"
#include "ops/read_piece.h"
#include "run/checking/output_manifest.h"
#include "run/checking/read_back.h"
#include "run/run_support.h"
#include "support/catch_error.h"
#include "support/checkpoint_builder.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"

namespace hfshard::conformance {
namespace {

std::vector<const Format*> writing_formats() {
  std::vector<const Format*> out;
  for (const Format* format : tested_formats()) {
    if (format->writes() && !format->discards()) out.push_back(format);
  }
  return out;
}

// Axis 1 is split by the mesh, and finely enough for inner chunks; the others are cut as it comes.
PlanOptions options_of(const Encoding& encoding = {}) {
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.stacked = false;
  options.rules_text = R"([["dim_0", []], ["dim_1", ["tensor"]], ["dim_2", []], ["dim_3", []],
                           ["dim_4", []]])";
  options.meshes = {"tensor=4"};
  options.chunk_bytes = 300;
  options.encoding = encoding;
  return options;
}

// With many chunks, tiles, files and journal records.
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
  // As form() says it, of a matrix; no array of a source may be of such a dtype.
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

  Plan plan_of(const PlanOptions& options) const {
    return make_plan(dir_ / "in", options, format(), limits_of_test());
  }
  RunResult write(const Plan& plan, const RunOptions& options, const Hook& hook = {}) const {
    QuietReporter reporter;
    return run_convert(plan, format(), options, reporter, hook);
  }
  std::string step_of(const std::string& out, std::uint64_t step = 0) const {
    return join_path(out, format().layout().step_directory(step));
  }
  VerifyResult verify(const std::string& out) const {
    QuietReporter reporter;
    const std::string step = step_of(out);
    return verify_digests(*format().open(step), read_manifest(join_path(step, kManifestName)),
                          to_output(out), reporter);
  }

  const TempDir dir_;
  SafetensorsBuilder source_;
  std::vector<Expected> arrays_;
};

// A whole array, row-major.
std::string read_array(const Checkpoint& opened, const std::string& name) {
  const std::uint32_t array = opened.catalog().find(name).value();
  const TensorInfo& info = opened.catalog().tensors[array];
  const Shape chunk = opened.catalog().grid_of(array).chunk;
  std::string out(packed_bytes(info.dtype, info.shape.numel()), '?');
  std::vector<std::byte> scratch(row_major_scratch_bytes(opened, array));
  for_each_chunk(chunk_counts(info.shape, chunk), [&](const Shape& piece) {
    std::string box(packed_bytes(info.dtype, chunk.numel()), '?');
    read_row_major(opened, array, piece, std::as_writable_bytes(std::span(box)), scratch);
    Shape origin = piece;
    for (std::size_t d = 0; d < piece.rank(); ++d) origin[d] *= chunk[d];
    copy_box(out, info.shape, box, chunk, origin, size_bits(info.dtype) / 8, /*back=*/true);
  });
  return out;
}

// Names of arrays that are not as they were.
std::string differing_arrays(const Checkpoint& opened, const std::vector<Expected>& wanted) {
  std::string out;
  for (const Expected& each : wanted) {
    const auto array = opened.catalog().find(each.name);
    const bool same = array && opened.catalog().tensors[*array].dtype == each.dtype &&
                      opened.catalog().tensors[*array].shape == each.shape &&
                      read_array(opened, each.name) == each.bytes;
    if (!same) out += each.name.substr(0, 60) + "\n";
  }
  return out;
}

std::vector<Encoding> encodings() { return {{true, 0}, {false, 0}, {true, 1}, {false, 3}}; }

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

// The sizes above ask for what the other tests are about.
TEST_P(Writing, TheGridsAreOfEveryKind) {
  const Plan plan = plan_of(options_of());
  bool ragged = false;
  bool inner = false;
  for (std::size_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    const Shape& shape = plan.model().leaves[leaf].shape;
    inner = inner || plan.grids()[leaf].has_inner();
    for (std::size_t d = 0; d < shape.rank(); ++d)
      ragged = ragged || shape[d] % plan.grids()[leaf].chunk[d] != 0;
  }
  EXPECT_TRUE(ragged);
  EXPECT_TRUE(inner);
  EXPECT_GE(plan.file_count(), 4U);
  EXPECT_GE(plan.groups().size(), 10U);
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

// Data files are named, aligned and begun as the format wants it.
TEST_P(Writing, DataFilesAreAsTheFormatWantsThem) {
  const Plan plan = plan_of(options_of());
  write(plan, to_output(dir_ / "out"));
  const FileLayout layout = format().layout();
  for (std::uint32_t file = 0; file < plan.file_count(); ++file) {
    const std::string path =
        join_path(join_path(step_of(dir_ / "out"), layout.item), layout.data_file(file));
    EXPECT_TRUE(read_file(path).starts_with(layout.leading)) << path;
  }
  for (std::uint32_t leaf = 0; leaf < plan.model().leaves.size(); ++leaf) {
    for_each_chunk(chunk_counts(plan.model().leaves[leaf].shape, plan.grids()[leaf].chunk),
                   [&](const Shape& chunk) {
                     const std::uint64_t offset = plan.place(leaf, chunk).offset_bytes;
                     EXPECT_GE(offset, layout.leading.size());
                     EXPECT_EQ(offset % std::max<std::uint64_t>(layout.alignment_bytes, 1), 0U);
                   });
  }
}

// Another program's bytes: MaxText's own converter made expected.json.
TEST_P(Writing, ATransposedAndStackedModelComesBackAsMaxTextHasIt) {
  const std::string source = copy_fixture("qwen3", dir_ / "qwen3");
  const Json wanted = parse_json(
      read_file(std::string(HFSHARD_TEST_DATA) + "/oracle/qwen3/expected.json"), "expected.json");
  PlanOptions options = small_options();
  options.encoding.zstd_level = 1;
  write(make_plan(source, options, format(), small_limits()), to_output(dir_ / "out"));
  const auto opened = format().open(dir_ / "out");
  for (const auto& [path, leaf] : wanted.at("scanned").as_object()) {
    const std::string name = "params.params." + join(split(path, '/'), ".");
    ASSERT_TRUE(opened->catalog().find(name).has_value()) << name;
    EXPECT_EQ(sha256_hex(read_array(*opened, name)), leaf.at("sha256").as_string()) << name;
  }
  EXPECT_TRUE(verify(dir_ / "out").differences.empty());
}

// Stopped behind each of its tiles, by an error or as by Ctrl-C, and gone on with.
TEST_P(Writing, AbandonedAnywhereItGoesOnToTheSameBytes) {
  for (const int zstd_level : {0, 1}) {
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
  for (const int zstd_level : {0, 1}) {
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
  const std::string out = dir_ / "out";
  const Plan plan = plan_of(options_of());
  write(plan, to_output(out));
  const Found root = format().recognise(out).value();
  EXPECT_EQ(root.directory, step_of(out));
  EXPECT_EQ(root.plan_id, plan.id());
  EXPECT_EQ(root.steps, (std::vector<Found::Step>{{0, step_of(out), true}}));
  EXPECT_EQ(format().recognise(step_of(out)).value().plan_id, plan.id());
  EXPECT_EQ(catch_error([&] { write(plan, to_output(out)); }).code(), ErrorCode::conflict);
  // A higher step stands beside it, and is what is meant then; by number, not as text.
  PlanOptions options = options_of();
  options.step = 10;
  const Plan later = plan_of(options);
  write(later, to_output(out));
  options.step = 9;
  write(plan_of(options), to_output(out));
  EXPECT_EQ(format().recognise(out).value().plan_id, later.id());
  EXPECT_EQ(format().recognise(out).value().directory, step_of(out, 10));
  EXPECT_EQ(format().recognise(step_of(out)).value().plan_id, plan.id());
  // One step is replaced, the others stay.
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

// Of what is written in commit order, each front part that lacks the file that commits.
TEST_P(Writing, WhatIsUnfinishedIsNobodysPlan) {
  const std::string out = dir_ / "out";
  const Plan plan = plan_of(options_of());
  write(plan, to_output(out));
  const FileLayout layout = format().layout();
  const std::string store = join_path(step_of(out), layout.item);
  const std::string commit = join_path(store, layout.commit_file);
  const std::string good = read_file(commit);
  const auto plan_id = [&] {
    const auto found = format().recognise(out);
    return found ? found->plan_id : std::string();
  };
  EXPECT_EQ(plan_id(), plan.id());
  remove_tree(commit);
  EXPECT_EQ(plan_id(), "");
  EXPECT_TRUE(catch_error([&] { format().open(out); }).code() != ErrorCode::internal);
  RunOptions again = to_output(out);
  again.resume = true;
  EXPECT_EQ(catch_error([&] { write(plan, again); }).code(), ErrorCode::conflict);
  write_text(commit, good.substr(0, good.size() / 2));
  EXPECT_EQ(plan_id(), "");
  // The same file of another plan.
  PlanOptions options = options_of();
  options.step = 3;
  write(plan_of(options), to_output(dir_ / "other"));
  write_text(commit, read_file(join_path(join_path(step_of(dir_ / "other", 3), layout.item),
                                         layout.commit_file)));
  EXPECT_NE(plan_id(), plan.id());
  write_text(commit, good);
  EXPECT_EQ(plan_id(), plan.id());
  EXPECT_TRUE(write(plan, again).already_done);
  // A staged tree is a run's own: before anything is published there is nothing at OUT.
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

// A flipped bit is found, by opening, reading or verifying, or it is one of those that decide
// nothing: then every array comes back as it was.
TEST_P(Writing, DamageIsFoundOrChangesNoArray) {
  std::mt19937 random(53);
  for (const Encoding& encoding : encodings()) {
    const std::string out = dir_ / "out";
    const Plan plan = plan_of(options_of(encoding));
    write(plan, to_output(out));
    std::set<std::string> data;
    for (std::uint32_t file = 0; file < plan.file_count(); ++file)
      data.insert(join_path(plan.files().item, plan.files().data_file(file)));
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
        // What is not zero in a data file is a part of some piece, or stands in front of all. A
        // zstd frame has bits that say nothing.
        const bool decides = encoding.checksum || encoding.zstd_level == 0;
        if (data.contains(path) && good[at] != 0 && decides) {
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
