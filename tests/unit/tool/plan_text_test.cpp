// Whole texts and JSON objects of plans and results.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/variables.h"
#include "tool/convert_report.h"
#include "tool/plan_report.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

std::string printed_wide(const std::function<void()>& print) {
  const Variables variables("COLUMNS", "900");
  testing::internal::CaptureStdout();
  print();
  return testing::internal::GetCapturedStdout();
}

PlannedLeaf small_leaf() {
  PlannedLeaf leaf;
  leaf.path = "a.leaf";
  leaf.dtype = DType::f32;
  leaf.shape = Shape{8, 6};
  leaf.axes = {"embed", ""};
  leaf.shard = Shape{4, 6};
  leaf.chunk = Shape{2, 6};
  leaf.chunks = 4;
  leaf.bytes = 192;
  return leaf;
}

// Every figure differs.
PlanSummary full_plan() {
  PlanSummary plan;
  plan.id = "d1";
  plan.identity = R"({"rules":"r"})";
  plan.family = "tiny";
  plan.scheme = "maxtext";
  plan.stacked = true;
  plan.source = "in";
  plan.step = 7;
  plan.other_steps = {3, 5};
  plan.meshes = {"fsdp=2", ""};
  plan.mesh_chosen = true;
  plan.notes = {"a note"};
  plan.warnings = {"a warning"};
  plan.drops = {{"unused", {"x", "y"}}, {"old", {"z"}}};
  plan.model_names = {"tiny-1b"};
  plan.load_words = {"word=1"};
  plan.load_note = "A note.";
  plan.parameters = 1234567;
  plan.dtypes = {{"int4", "bf16", true, 10, 40}, {"f32", "bf16", false, 80, 41}};
  plan.source_files = 2;
  plan.tensors = 3;
  plan.dropped = 4;
  plan.objects = 5;
  plan.source_bytes = 90;
  plan.shared_tensors = 6;
  plan.output_bytes = 81;
  plan.files = 7;
  plan.leaves = 8;
  plan.chunks = 9;
  plan.units = 11;
  plan.largest_unit_bytes = 12;
  return plan;
}

PlanReport full_report() {
  PlanReport report;
  report.summary = full_plan();
  report.memory.need_bytes = 13;
  report.memory.control_bytes = 14;
  report.memory.peak_bytes = 15;
  report.memory.kernel_threads = 16;
  report.memory.threads = 18;
  report.loads = {{"fsdp=2", {{19, 20, 21}}, 19, 38, 22, {}},
                  {"", {{23, 23, 1}}, 23, 23, 24, {"big"}}};
  report.scratch_bytes = 25;
  report.free_bytes = 106;
  report.why_no_time = "no time";
  return report;
}

TEST(PlanText, HasALineForEachFact) {
  const PlanReport report = full_report();
  EXPECT_EQ(
      printed_wide([&] { print_plan(report); }),
      "plan      d1\n"
      "family    tiny (maxtext, stacked), 1.23 M parameters\n"
      "mesh      fsdp=2 and one device (chosen; pass --mesh to change it)\n"
      "source    3 tensors in 2 files, 90 B read\n"
      "decoded   10 B in, 40 B out: int4 decodes to bf16\n"
      "cast      80 B in, 41 B out: f32 becomes bf16\n"
      "shared    6 tensors are part of several leaves; hfshard reads them once for each\n"
      "output    81 B in 7 data files, 9 chunks, 8 leaves, 5 objects\n"
      "threads   16 compute, 2 read and write files\n"
      "memory    at most 15 B; 13 B is enough (14 B for the plan)\n"
      "load      on fsdp=2: 1 host needs 19 B and reads 20 B in 21 requests (2.00x)\n"
      "load      on one device: 1 host needs 23 B and reads 23 B in 1 request (1.00x)\n"
      "warning   Orbax's byte limiter refuses 1 leaf there, first big: requests take up to 24 B; "
      "pass this mesh to --mesh, or raise restore_concurrent_gb above it\n"
      "scratch   25 B of disk during the run, for unpacked arrays that don't fit into memory\n"
      "disk      106 B free, enough\n"
      "time      not estimated: no time\n");
}

TEST(PlanText, LacksLinesForFactsThatAreAbsent) {
  PlanReport report;
  report.summary.family = "tiny";
  report.summary.scheme = "maxtext";
  report.summary.tensors = 1;
  report.summary.source_files = 1;
  report.summary.files = 1;
  report.summary.leaves = 1;
  report.summary.shared_tensors = 1;
  report.summary.chunks = 1;
  report.summary.compresses = true;
  report.summary.meshes = {"fsdp=2"};
  report.time = TimeEstimate{90, 60, 200, 30, true, "writing"};
  EXPECT_EQ(printed_wide([&] { print_plan(report); }),
            "plan      \n"
            "family    tiny (maxtext, separate), 0 parameters\n"
            "mesh      fsdp=2\n"
            "source    1 tensor in 1 file, 0 B read\n"
            "shared    1 tensor is part of several leaves; hfshard reads it once for each\n"
            "output    at most 0 B in 1 data file, 1 chunk, 1 leaf\n"
            "threads   0 compute, 0 read and write files\n"
            "memory    at most 0 B; 0 B is enough (0 B for the plan)\n"
            "time      about 90 s, from a short trial on this machine; writing is the limit "
            "(reading 60 s, writing 3 min on the same disk, processor 30 s)\n");
  report.time = TimeEstimate{90, 60, 30, 200, false, "processor"};
  report.summary.whole_arrays = true;
  report.summary.objects = 1;
  EXPECT_EQ(printed_wide([&] { print_plan(report); }),
            "plan      \n"
            "family    tiny (maxtext, separate), 0 parameters\n"
            "mesh      fsdp=2\n"
            "source    1 tensor in 1 file, 0 B read\n"
            "shared    1 tensor is part of several leaves; hfshard reads it once for each\n"
            "output    at most 0 B in 1 data file, 1 leaf, 1 object\n"
            "threads   0 compute, 0 read and write files\n"
            "memory    at most 0 B; 0 B is enough (0 B for the plan)\n"
            "time      about 90 s, from a short trial on this machine; the processor is the limit "
            "(reading 60 s, writing 30 s, processor 3 min)\n");
}

TEST(PlanText, AFamilyHasItsNamesBesideIt) {
  PlanSummary plan;
  plan.family = "tiny";
  plan.scheme = "maxtext";
  EXPECT_EQ(family_text(plan), "tiny (maxtext, separate)");
  plan.stacked = true;
  EXPECT_EQ(family_text(plan), "tiny (maxtext, stacked)");
  plan.scheme = "hf";
  EXPECT_EQ(family_text(plan), "tiny (hf: the model's own names)");
  plan.dialect = "vllm";
  EXPECT_EQ(family_text(plan), "tiny (hf, dialect vllm)");
  plan.family = kNoFamily;
  EXPECT_EQ(family_text(plan), "any (hf: unchanged names and shapes)");
}

TEST(PlanText, JsonHasAMemberForEachFact) {
  PlanReport report = full_report();
  EXPECT_EQ(dump_json(plan_json(report)),
            sorted(R"({"chunks": 9, "control_memory_bytes": 14, "disk": {"fits": true, "free_bytes":
      106}, "dropped": 4, "drops": [{"tensors": ["x", "y"], "why": "unused"}, {"tensors":
      ["z"], "why": "old"}], "dtypes": [{"decoded": true, "from": "int4", "output_bytes":
      40, "source_bytes": 10, "to": "bf16"}, {"decoded": false, "from": "f32",
      "output_bytes": 41, "source_bytes": 80, "to": "bf16"}], "estimate": null, "family":
      "tiny", "files": 7, "identity": {"rules": "r"}, "kernel_threads": 16,
      "largest_unit_bytes": 12, "layers": "stacked", "load_note": "A note.",
      "load_words": ["word=1"], "loads": [{"hosts": 1, "largest_request_bytes": 22,
      "mesh": "fsdp=2", "needed_bytes": 19, "per_host": [{"needed_bytes": 19,
      "read_bytes": 20, "requests": 21}], "read_bytes": 38, "refused": []}, {"hosts": 1,
      "largest_request_bytes": 24, "mesh": "", "needed_bytes": 23, "per_host":
      [{"needed_bytes": 23, "read_bytes": 23, "requests": 1}], "read_bytes": 23,
      "refused": ["big"]}], "meshes": ["fsdp=2", ""], "model_names": ["tiny-1b"],
      "need_memory_bytes": 13, "no_estimate": "no time", "notes": ["a note"], "objects":
      5, "other_steps": [3, 5], "output_bytes": 81, "parameters": 1234567,
      "peak_memory_bytes": 15, "plan_id": "d1", "scheme": "maxtext", "scratch_bytes": 25,
      "shared_tensors": 6, "source_bytes": 90, "source_files": 2, "step": 7, "tensors":
      3, "threads": 18, "units": 11, "warnings": ["a warning"]})"));
  report.free_bytes = 105;
  report.time = TimeEstimate{1, 2, 3, 4, true, "writing"};
  report.loads.clear();
  report.summary.dialect = "vllm";
  report.summary.links = true;
  report.summary.linked_bytes = 31;
  report.summary.linked_leaves = 32;
  report.summary.linked_chunks = 33;
  report.summary.not_linked = {{"leaf", "why"}};
  report.summary.loads = {{"fsdp=4", {}, 1, 2, 3, {}}};
  const Json json = plan_json(report);
  EXPECT_EQ(json.find("no_estimate"), nullptr);
  Json some;
  for (const char* name : {"dialect", "disk", "estimate", "linked_bytes", "linked_leaves",
                           "linked_chunks", "not_linked", "wants_side_file", "loads"})
    some[name] = json.at(name);
  EXPECT_EQ(dump_json(some),
            sorted(R"({"dialect": "vllm", "disk": {"fits": false, "free_bytes": 105}, "estimate":
      {"limit": "writing", "one_disk": true, "processor_seconds": 4.0, "read_seconds":
      2.0, "seconds": 1.0, "write_seconds": 3.0}, "linked_bytes": 31, "linked_chunks":
      33, "linked_leaves": 32, "loads": [{"hosts": 0, "largest_request_bytes": 3, "mesh":
      "fsdp=4", "needed_bytes": 1, "per_host": [], "read_bytes": 2, "refused": []}],
      "not_linked": [{"path": "leaf", "why": "why"}], "wants_side_file": false})"));
}

TEST(PlanText, LinkedAndCopiedBytesHaveTheirShares) {
  PlanSummary plan;
  const auto lines = [&] {
    std::string out;
    for (const std::string& line : link_lines(plan)) out += line + "\n";
    return out;
  };
  plan.linked_bytes = 3;
  EXPECT_EQ(lines(), "");
  EXPECT_EQ(load_lines(plan).size(), 0U);
  plan.links = true;
  plan.loads = {{"fsdp=2", {{1, 2, 3}}, 1, 2, 4, {}}};
  plan.linked_chunks = 2;
  plan.linked_leaves = 1;
  plan.output_bytes = 1;
  plan.files = 1;
  EXPECT_EQ(lines(),
            "linked    75.0% of the bytes: 3 B in 2 chunks of 1 leaf\n"
            "copied    1 B into 1 side data file\n");
  ASSERT_EQ(load_lines(plan).size(), 1U);
  EXPECT_EQ(load_lines(plan)[0],
            "load      on fsdp=2: 1 host needs 1 B and reads 2 B in 3 requests (2.00x)");
  plan.output_bytes = std::uint64_t{1} << 30;
  plan.linked_bytes = 0;
  plan.files = 2;
  EXPECT_EQ(lines(),
            "linked    0.0% of the bytes: 0 B in 2 chunks of 1 leaf\n"
            "copied    1 GiB into 2 side data files\n");
  ++plan.output_bytes;
  EXPECT_EQ(lines(),
            "linked    0.0% of the bytes: 0 B in 2 chunks of 1 leaf\n"
            "copied    1 GiB into 2 side data files; pass --side-file to allow it\n");
  PlanReport report;
  report.summary = plan;
  EXPECT_NE(printed_wide([&] { print_plan(report); }).find("\nlinked    0.0% of the bytes"),
            std::string::npos);
  Json json;
  add_linked(plan, json);
  EXPECT_TRUE(json.at("wants_side_file").as_bool());
  plan.output_bytes = 0;
  EXPECT_EQ(lines(),
            "linked    0.0% of the bytes: 0 B in 2 chunks of 1 leaf\n"
            "copied    nothing; all data stays in the source's files\n");
}

TEST(PlanText, LeavesHaveTheColumnsOfTheirKind) {
  PlanReport report;
  report.leaves = {small_leaf(), small_leaf()};
  report.leaves[1].path = "b";
  report.summary.leaves = 2;
  const auto shown = [&] { return printed_wide([&] { print_leaves(report); }); };
  EXPECT_EQ(shown(),
            "  leaf    dtype  bytes  chunks  shape  shard  chunk\n"
            "  a.leaf  f32    192 B  4       8x6    4x6    2x6\n"
            "  b       f32    192 B  4       8x6    4x6    2x6\n");
  report.leaves[1].inner = Shape{1, 3};
  report.leaves[0].linked = true;
  report.summary.links = true;
  EXPECT_EQ(shown(),
            "  leaf    dtype  bytes  chunks  data     shape  shard  chunk  inner chunk\n"
            "  a.leaf  f32    192 B  4       linked   8x6    4x6    2x6\n"
            "  b       f32    192 B  4       written  8x6    4x6    2x6    1x3\n");
  report.summary.links = false;
  report.leaves[1].inner.reset();
  report.summary.whole_arrays = true;
  EXPECT_EQ(shown(),
            "  leaf    dtype  bytes  shape\n"
            "  a.leaf  f32    192 B  8x6\n"
            "  b       f32    192 B  8x6\n");
}

TEST(PlanText, ALeafInJsonHasTheFactsOfItsLayout) {
  PlannedLeaf leaf = small_leaf();
  EXPECT_EQ(dump_json(leaf_json(leaf)),
            sorted(R"({"axes": ["embed", null], "bytes": 192, "chunk": [2, 6], "chunks": 4, "dtype":
      "f32", "path": "a.leaf", "shape": [8, 6], "shard": [4, 6]})"));
  leaf.inner = Shape{1, 3};
  leaf.linked = true;
  EXPECT_EQ(dump_json(leaf_json(leaf).at("inner")), "[1,3]");
  EXPECT_TRUE(leaf_json(leaf).at("linked").as_bool());
}

TEST(PlanText, NotesBeginWithTheStep) {
  EXPECT_EQ(
      source_notes(full_plan()),
      (std::vector<std::string>{"note: reading step 7; other steps: 3, 5", "warning: a warning",
                                "note: a note", "note: not converted: \"x\" and 1 more: unused",
                                "note: not converted: \"z\": old"}));
}

ConvertReport full_result() {
  ConvertReport report;
  report.plan = full_plan();
  report.plan.load_path = "load_path";
  report.run.published = true;
  report.run.path = "/out/0/items";
  report.run.output_bytes = 101;
  report.run.written_bytes = 102;
  report.run.skipped_bytes = 103;
  report.run.source_bytes = 104;
  report.run.peak_arena_bytes = 105;
  report.run.journal_records = 106;
  report.run.overflows = 107;
  report.run.root_digest = "d2";
  report.run.reads = {{IoMode::mmap, "small", 1}};
  report.run.writes = {{IoMode::direct, "large", 2}};
  report.run.network = NetworkUse{108, 109, 110, 55, 112};
  report.run.seconds = 1.5;
  return report;
}

TEST(ResultText, HasALineForEachFact) {
  ConvertReport report = full_result();
  EXPECT_EQ(
      printed_wide([&] { print_published(report, "/out"); }),
      "published /out/0/items (101 B in 1.50 s)\n"
      "family    tiny (maxtext, stacked)\n"
      "decoded   10 B in, 40 B out: int4 decodes to bf16\n"
      "cast      80 B in, 41 B out: f32 becomes bf16\n"
      "digest    d2\n"
      "overflow  107 finite values became infinite; the new dtype is too narrow\n"
      "network   110 B in 108 requests, 2.00x the bytes needed\n"
      "unverified 112 B were streamed without a checksum; pass --keep-files to verify whole files\n"
      "next      load_path=/out/0/items \\\n"
      "          word=1\n"
      "          A note.\n");
  report.plan.dtypes.clear();
  report.run.overflows = 0;
  report.run.network.reset();
  report.plan.carries_tokenizer = true;
  EXPECT_EQ(printed_wide([&] { print_published(report, "/out"); }),
            "published /out/0/items (101 B in 1.50 s)\n"
            "family    tiny (maxtext, stacked)\n"
            "digest    d2\n"
            "next      load_path=/out/0/items \\\n"
            "          word=1\n"
            "          A note.\n"
            "tokenizer /out\n");
  report.plan.side_directory = "hf";
  EXPECT_TRUE(printed_wide([&] { print_end(report, "/out"); }).ends_with("\ntokenizer /out/hf\n"));
}

TEST(ResultText, JsonHasAMemberForEachFact) {
  ConvertReport report = full_result();
  EXPECT_EQ(dump_json(result_json(report)),
            sorted(R"({"already_done": false, "drops": [{"tensors": ["x", "y"], "why": "unused"},
      {"tensors": ["z"], "why": "old"}], "dtypes": [{"decoded": true, "from": "int4",
      "output_bytes": 40, "source_bytes": 10, "to": "bf16"}, {"decoded": false, "from":
      "f32", "output_bytes": 41, "source_bytes": 80, "to": "bf16"}], "family": "tiny",
      "io": {"read": [{"files": 1, "mode": "mmap", "why": "small"}], "write": [{"files":
      2, "mode": "direct", "why": "large"}]}, "journal_records": 106, "layers":
      "stacked", "model_names": ["tiny-1b"], "network": {"data_bytes": 110,
      "data_requests": 109, "requests": 108, "unchecked_bytes": 112, "used_bytes": 55},
      "next": ["load_path=/out/0/items", "word=1"], "notes": ["a note"], "other_steps":
      [3, 5], "output_bytes": 101, "overflows": 107, "path": "/out/0/items",
      "peak_arena_bytes": 105, "plan_id": "d1", "published": true, "root_digest": "d2",
      "scheme": "maxtext", "seconds": 1.5, "skipped_bytes": 103, "source_bytes": 104,
      "step": 7, "warnings": ["a warning"], "written_bytes": 102})"));
  report.run.network.reset();
  report.run.published = false;
  report.plan.step.reset();
  const Json json = result_json(report);
  EXPECT_FALSE(json.at("published").as_bool());
  EXPECT_EQ(dump_json(json.at("next")), "[]");
  EXPECT_EQ(json.find("network"), nullptr);
  EXPECT_EQ(json.find("step"), nullptr);
  EXPECT_EQ(json.find("other_steps"), nullptr);
}

// A shell reads lines with a backslash at their end as one.
TEST(NextCommand, IsFoldedToTheTerminal) {
  PlanSummary plan;
  plan.load_path = "load_path";
  plan.load_words = {"a=1", "b=2", "c=34"};
  plan.load_note = "These arguments set every size.";
  const auto next = [&](const char* columns) {
    const Variables variables("COLUMNS", columns);
    testing::internal::CaptureStdout();
    print_next(plan, "/out");
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(next("24"),
            "next      load_path=/out \\\n"
            "          a=1 b=2 c=34\n"
            "          These\n"
            "          arguments set\n"
            "          every size.\n");
  EXPECT_EQ(next("23"),
            "next      load_path=/out \\\n"
            "          a=1 b=2 \\\n"
            "          c=34\n"
            "          These\n"
            "          arguments set\n"
            "          every size.\n");
  EXPECT_EQ(next("1000"),
            "next      load_path=/out \\\n"
            "          a=1 b=2 c=34\n"
            "          These arguments set every size.\n");
  EXPECT_EQ(next("1001"),
            "next      load_path=/out a=1 b=2 c=34\n          These arguments set every size.\n");
  plan.load_path.clear();
  EXPECT_EQ(next("20"), "next      hfshard inspect /out\n");
}

}  // namespace
}  // namespace hfshard
