// A run announces what it reads over a network before it needs it, and counts it.

#include "run/engine/far_reads.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "run/commit/journal.h"
#include "run/engine/unit_filler.h"
#include "run/published.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "unit/run/far_source.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

constexpr const char* kSecondFile = "model-00002-of-00002.safetensors";

Plan far_plan(const std::shared_ptr<FarStore>& store, const std::string& source,
              const PlanOptions& options = small_options()) {
  return make_plan(StorePath{store, source}, options, format_of(options.target), small_limits());
}

std::vector<FileRange> announced(RangeFeed& feed) {
  std::vector<FileRange> out;
  for (FileRange next; feed.next(next);) out.push_back(next);
  return out;
}

std::uint64_t bytes_of_ranges(const std::vector<FileRange>& ranges) {
  std::uint64_t out = 0;
  for (const FileRange& each : ranges) out += each.range.end - each.range.begin;
  return out;
}

// Returns the ranges that filling the units of [begin, end) reads, except for one unit.
std::vector<FileRange> filled(const Plan& plan, const FarStore& store, std::uint64_t begin,
                              std::uint64_t end, const std::optional<UnitRef>& without = {}) {
  const OpenSources sources = open_sources(plan.catalog());
  const UnitFiller filler(plan, sources);
  store.take_asks();
  for (UnitRef at = plan.unit_at(begin); plan.address_of(at) < end; at = plan.next(at)) {
    if (at == without) continue;
    std::vector<std::byte> region(plan.region_bytes(at));
    std::vector<std::byte> scratch(filler.scratch_bytes(at));
    std::vector<SlotDigest> digests;
    filler.fill(at, region, scratch, digests);
  }
  std::vector<FileRange> out;
  for (const FarStore::Ask& ask : store.take_asks()) {
    const auto file = std::ranges::find(plan.catalog().files, ask.name,
                                        [](const CatalogFile& each) { return each.path.name(); });
    const auto number = static_cast<std::uint32_t>(file - plan.catalog().files.begin());
    out.push_back({number, ask.range});
  }
  return out;
}

TEST(PlanFeed, AnnouncesExactlyWhatFillingReadsInItsOrder) {
  for (const char* fixture : {"qwen3", "deepseek3-fp8", "kimi-int4", "gpt-oss-mxfp4"}) {
    SCOPED_TRACE(fixture);
    const TempDir dir;
    const auto store = std::make_shared<FarStore>();
    PlanOptions options;
    options.chunk_bytes = 64;
    const Plan plan = far_plan(store, copy_fixture(fixture, dir / "source"), options);
    const std::uint64_t end = plan.end_address();
    const std::vector<FileRange> all = filled(plan, *store, 0, end);
    PlanFeed feed(plan, 0, end, nullptr);
    EXPECT_EQ(announced(feed), all);
    EXPECT_GT(all.size(), 20U);
  }
}

// Each source has zero points and a factor of its own, here with the scales' places.
TEST(PlanFeed, AnnouncesZeroPointsAndFactors) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  PlanOptions options;
  options.chunk_bytes = 64;
  const Plan coded = far_plan(store, copy_fixture("kimi-int4", dir / "source"), options);
  PlanParts parts(coded);
  std::size_t decoded = 0;
  for (Transfer& transfer : parts.model.transfers) {
    if (!transfer.decode) continue;
    Decode more = *transfer.decode;
    more.form.zeros = ZeroPoints::int8;
    more.zeros = more.scales;
    more.form.factor = Factor::multiplies;
    more.factors = more.scales;
    transfer.decode = std::make_shared<const Decode>(more);
    ++decoded;
  }
  ASSERT_GT(decoded, 0U);
  parts.cut.units = {};
  for (std::size_t leaf = 0; leaf < coded.units().size(); ++leaf) {
    UnitForm larger = coded.units()[leaf];
    larger.scratch_bytes += kMiB;
    parts.cut.units.push_back(larger);
  }
  const Plan plan = parts.build();
  const std::vector<FileRange> all = filled(plan, *store, 0, plan.end_address());
  PlanFeed feed(plan, 0, plan.end_address(), nullptr);
  EXPECT_EQ(announced(feed), all);
  EXPECT_GT(all.size(), filled(coded, *store, 0, coded.end_address()).size());
}

TEST(PlanFeed, AnnouncesAShareWithoutWhatIsDone) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  const Plan plan = far_plan(store, copy_fixture("qwen3", dir / "source"));
  const std::uint64_t begin = plan.file_begin().at(1);
  const std::uint64_t end = plan.file_begin().at(2);
  const UnitRef second = plan.next(plan.unit_at(begin));
  const std::uint64_t at = plan.address_of(second);
  const std::uint64_t size = plan.region_bytes(second);
  JournalState done;
  done.done = {{at, at + size, {}}};
  PlanFeed feed(plan, begin, end, &done);
  EXPECT_EQ(announced(feed), filled(plan, *store, begin, end, second));
  done.done = {{at, at + size - 1, {}}};
  PlanFeed partly(plan, begin, end, &done);
  EXPECT_EQ(announced(partly), filled(plan, *store, begin, end)) << "units are read whole";
}

TEST(PlanFeed, LeavesOutFilesOfThisMachine) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan near = small_plan(source);
  PlanFeed none(near, 0, near.end_address(), nullptr);
  EXPECT_TRUE(announced(none).empty());
  const auto store = std::make_shared<FarStore>(
      [](const std::string& name) { return name.ends_with(kSecondFile); });
  const Plan plan = far_plan(store, source);
  EXPECT_EQ(far_files(plan.catalog()), (std::vector<bool>{false, true}));
  std::vector<FileRange> wanted = filled(plan, *store, 0, plan.end_address());
  std::erase_if(wanted, [](const FileRange& each) { return each.file == 0; });
  PlanFeed feed(plan, 0, plan.end_address(), nullptr);
  EXPECT_EQ(announced(feed), wanted);
  EXPECT_FALSE(wanted.empty());
}

TEST(FarReads, TheTrafficOfARunHasTheBytesThatItsRulesRead) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan plan = far_plan(store, source);
  PlanFeed feed(plan, 0, plan.end_address(), nullptr);
  const std::uint64_t all = bytes_of_ranges(announced(feed));
  ASSERT_GT(all, 0U);
  const RunResult made = convert(plan, to_output(dir / "out"));
  ASSERT_TRUE(made.network.has_value());
  EXPECT_EQ(made.network->requests, 7U) << "as the store counts them";
  EXPECT_EQ(made.network->used_bytes, all);
  EXPECT_EQ(made.network->unchecked_bytes, all);
  EXPECT_GE(made.network->bytes, all);
  convert(small_plan(source), to_output(dir / "near"));
  EXPECT_EQ(differing(tree_of(dir / "out"), tree_of(dir / "near")), "");
  PlanOptions discarded = small_options();
  discarded.target = "null";
  const RunResult counted = convert(far_plan(store, source, discarded), to_output(""));
  ASSERT_TRUE(counted.network.has_value());
  EXPECT_EQ(counted.network->used_bytes, all);
}

// Without memory to read ahead, each range is read when it is needed.
TEST(FarReads, TheTrafficIsTheSameWithoutReadingAhead) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  const Plan plan = far_plan(store, copy_fixture("qwen3", dir / "source"));
  const OpenSources sources = open_sources(plan.catalog());
  const std::uint64_t begin = plan.file_begin().at(1);
  PlanFeed feed(plan, begin, plan.end_address(), nullptr);
  const std::uint64_t share = bytes_of_ranges(announced(feed));
  FarReads reads(plan, sources, {begin, plan.end_address()}, nullptr, Budget{});
  const auto use = reads.network_use();
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->used_bytes, share);
  EXPECT_EQ(use->unchecked_bytes, share);
  const Plan near = small_plan(dir / "source");
  const OpenSources files = open_sources(near.catalog());
  FarReads local(near, files, {0, near.end_address()}, nullptr, Budget{});
  EXPECT_FALSE(local.network_use().has_value());
}

TEST(LinkBytes, AreTheBytesThatCameSoFar) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan plan = far_plan(store, source);
  const auto so_far = link_bytes(plan);
  ASSERT_TRUE(so_far);
  const std::uint64_t before = so_far();
  std::vector<std::byte> some(100);
  open_sources(plan.catalog()).at(0)->read_at(0, some);
  EXPECT_EQ(so_far(), before + 100);
  const Plan near = small_plan(source);
  EXPECT_FALSE(link_bytes(near));
}

TEST(KeepArrivals, FilesOfTheNetworkKeepWhatComesUnderTheirNumbers) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const auto kept_by = [&](const std::shared_ptr<FarStore>& store, std::uint64_t spare_bytes) {
    const Plan plan = far_plan(store, source);
    OpenSources sources = open_sources(plan.catalog());
    return keep_arrivals(plan, sources, dir.path(), to_output(dir / "out"), spare_bytes) != nullptr;
  };
  const auto all = std::make_shared<FarStore>();
  EXPECT_FALSE(kept_by(all, 0));
  EXPECT_FALSE(kept_by(all, 2)) << "a third of it";
  EXPECT_TRUE(all->keepers().empty());
  EXPECT_TRUE(kept_by(all, 3));
  EXPECT_EQ(all->keepers(), (std::vector<FarStore::Keeper>{
                                {join_path(source, "model-00001-of-00002.safetensors"), 0},
                                {join_path(source, kSecondFile), 1}}));
  const auto one = std::make_shared<FarStore>(
      [](const std::string& name) { return name.ends_with(kSecondFile); });
  EXPECT_TRUE(kept_by(one, kMiB));
  EXPECT_EQ(one->keepers(), (std::vector<FarStore::Keeper>{{join_path(source, kSecondFile), 1}}));
  const auto none = std::make_shared<FarStore>([](const std::string& /*name*/) { return false; });
  EXPECT_FALSE(kept_by(none, kMiB));
  EXPECT_TRUE(none->keepers().empty());
}

TEST(KeepArrivals, BytesAreWantedIfNoRecordCameForLong) {
  const TempDir dir;
  const auto store = std::make_shared<FarStore>();
  const auto wanted = [&](std::uint64_t commit_ms) {
    Limits limits = small_limits();
    limits.commit_ms = commit_ms;
    const Plan plan = make_plan(StorePath{store, copy_fixture("qwen3", dir / "source")},
                                small_options(), format_of("orbax"), limits);
    OpenSources sources = open_sources(plan.catalog());
    const auto kept = keep_arrivals(plan, sources, dir.path(), to_output(dir / "out"), kMiB);
    return kept->is_wanted();
  };
  EXPECT_TRUE(wanted(0));
  EXPECT_FALSE(wanted(std::uint64_t{3'600'000} * 24));
}

// Bytes that came for an earlier run, and that no record of its journal has.
class ArrivedEarlier : public testing::Test {
 protected:
  // Leaves the staging of a worker's share, with a journal that has no record.
  void leave(const RunOptions& options) const {
    const OutPaths paths = out_paths(plan_, options.out);
    Staging staging(paths, options.workers > 1);
    staging.begin(plan_);
    const JournalWriter journal(paths.staging, plan_.id(), options.worker, options.workers);
    OpenSources sources = open_sources(plan_.catalog());
    const auto kept = keep_arrivals(plan_, sources, paths.staging, options, kMiB);
    const std::string bytes(300, 'x');
    kept->keep(0, plan_.catalog().files[0].size_bytes - 300, as_bytes(bytes));
  }

  TempDir dir_;
  std::shared_ptr<FarStore> store_ = std::make_shared<FarStore>();
  Plan plan_ = far_plan(store_, copy_fixture("qwen3", dir_ / "source"));
};

TEST_F(ArrivedEarlier, IsToldAndKeptUntilTheRunEnds) {
  struct Found final : Reporter {
    void resumed(const FoundWork& work) override { told = work; }
    std::optional<FoundWork> told;
  } found;
  RunOptions share = to_output(dir_ / "out");
  share.worker = 1;
  share.workers = 3;
  leave(share);
  const std::string staging = out_paths(share.out).staging;
  EXPECT_GT(arrived_bytes(staging, share), 300U);
  const Format& target = format_of("orbax");
  EXPECT_TRUE(has_kept(plan_, target, share)) << "though its journal is empty";
  RunOptions other = share;
  other.worker = 2;
  EXPECT_EQ(arrived_bytes(staging, other), 0U);
  EXPECT_FALSE(has_kept(plan_, target, other));
  run_convert(plan_, target, share, found, {});
  ASSERT_TRUE(found.told.has_value()) << "without --resume, since something was found";
  EXPECT_EQ(found.told->arrived_bytes, 300U);
  EXPECT_EQ(found.told->bytes, 0U);
  EXPECT_FALSE(found.told->asked);
  EXPECT_EQ(arrived_bytes(staging, share), 0U) << "the output has them now";
}

TEST_F(ArrivedEarlier, AStoppedRunSaysThatItIsKept) {
  const std::atomic<bool> stop = true;
  RunOptions options = to_output(dir_ / "out");
  leave(options);
  options.stop = &stop;
  const auto stopped = [&] {
    std::string out;
    try {
      convert(plan_, options);
    } catch (const Error& error) {  // what is tested
      out = error.sentence();
    }
    return out;
  };
  EXPECT_EQ(stopped(), "stopped; hfshard kept everything written so far");
  const OutPaths paths = out_paths(options.out);
  for (const std::string& name : list_directory(paths.staging)) {
    if (name.starts_with("arrived.")) remove_tree(join_path(paths.staging, name));
  }
  EXPECT_EQ(stopped(), "stopped; hfshard kept nothing");
}

// A killed run has to request again what no record has.
TEST(FarReads, ARecordOfBytesOfANetworkIsShorter) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::u8, {66 * kMiB}, std::string(66 * kMiB, 'x'))
      .tensor("b", DType::u8, {4 * kMiB}, std::string(4 * kMiB, 'x'))
      .write(dir / "source/model.safetensors");
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.encoding.checksum = false;
  Limits limits;
  limits.commit_ms = 3'600'000;
  const auto records_of = [&](const StorePath& source, const char* out) {
    const Plan plan = make_plan(source, options, format_of("orbax"), limits);
    return convert(plan, to_output(dir / out)).journal_records;
  };
  EXPECT_EQ(records_of(dir / "source", "near"), 1U);
  EXPECT_EQ(records_of({std::make_shared<FarStore>(), dir / "source"}, "far"), 2U) << "of 64 MiB";
}

}  // namespace
}  // namespace hfshard
