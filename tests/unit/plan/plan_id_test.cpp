// The plan id identifies the bytes that a run writes. Resumed runs, other workers and finalize
// compare nothing else. So anything that affects a byte must change it.

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/version.h"
#include "base/zstd.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/family.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/options_json.h"
#include "plan/plan.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {
namespace {

// The inputs of a plan.
struct Inputs {
  Catalog catalog;
  PlanOptions options;
  Limits limits;

  Inputs() {
    FakeCatalog fake = FakeCatalog::of("qwen3", example_config("qwen3"));
    fake.files[0].header_sha256 = "1111";
    fake.files[0].size_bytes = 1000;
    catalog = fake;
    for (TensorInfo& info : catalog.tensors)
      info.size_bytes = packed_bytes(info.dtype, info.shape.numel());
    options.meshes = {"fsdp=2"};
  }
};

PieceForm plain_form(const Leaf& leaf, const Grid& grid) {
  PieceForm form;
  form.cell_bytes = packed_bytes(leaf.dtype, grid.chunk.numel());
  return form;
}

Plan plan_of(const Inputs& inputs, CompiledModel compiled) {
  return build_plan(make_model(inputs.catalog, std::move(compiled)), inputs.options, plain_form, {},
                    inputs.limits);
}

Plan plan_of(const Inputs& inputs) {
  return plan_of(inputs, compile_model(inputs.catalog, inputs.options.mapping));
}

struct InputChange {
  const char* what;
  std::function<void(Inputs&)> apply;
};

const std::vector<InputChange>& input_changes() {
  static const std::vector<InputChange> all = {
      {"config.json, by a space", [](Inputs& in) { in.catalog.config_text += " "; }},
      {"a header", [](Inputs& in) { in.catalog.files[0].header_sha256 = "2222"; }},
      {"a file's size", [](Inputs& in) { in.catalog.files[0].size_bytes = 1001; }},
      {"a file's name", [](Inputs& in) { in.catalog.files[0].name = "other.safetensors"; }},
      {"one more file", [](Inputs& in) { in.catalog.files.emplace_back(); }},
      {"axis rules", [](Inputs& in) { in.options.rules_text = "[[\"embed\", [\"fsdp\"]]]"; }},
      {"the same axis rules in another form",
       [](Inputs& in) { in.options.rules_text = "[[\"embed\",  [\"fsdp\"]]]"; }},
      {"the layout of layers", [](Inputs& in) { in.options.mapping.stacked = false; }},
      {"the scheme",
       [](Inputs& in) {
         in.options.mapping.scheme = "hf";
         in.options.mapping.stacked = false;
       }},
      {"a dtype", [](Inputs& in) { in.options.mapping.dtype = DType::f32; }},
      {"a tensor left out", [](Inputs& in) { in.options.mapping.exclude = {"model.norm.weight"}; }},
      {"another mesh", [](Inputs& in) { in.options.meshes = {"fsdp=1"}; }},
      {"a second mesh",
       [](Inputs& in) {
         in.options.meshes = {"fsdp=2", "fsdp=1"};
       }},
      {"the chunk size", [](Inputs& in) { in.options.chunk_bytes /= 2; }},
      {"no checksum", [](Inputs& in) { in.options.encoding.checksum = false; }},
      {"compression", [](Inputs& in) { in.options.encoding.zstd_level = 3; }},
      {"another level", [](Inputs& in) { in.options.encoding.zstd_level = 4; }},
      {"the step", [](Inputs& in) { in.options.step = 1; }},
      {"linking", [](Inputs& in) { in.options.link = true; }},
      {"linking in place", [](Inputs& in) { in.options.link = in.options.in_place = true; }},
      {"linking from other pieces on",
       [](Inputs& in) {
         in.options.link = true;
         in.limits.link_piece_bytes = 1;
       }},
  };
  return all;
}

// The names of the source can have another meaning, which may not be recorded elsewhere.
TEST(PlanId, ChangesWithTheDialectOfTheSource) {
  const Inputs inputs;
  CompiledModel compiled = compile_model(inputs.catalog, inputs.options.mapping);
  compiled.source_dialect = "modules";
  const Plan plan = plan_of(inputs, std::move(compiled));
  EXPECT_EQ(plan.identity().at("source").at("dialect"), Json("modules"));
  EXPECT_EQ(plan_of(inputs).identity().at("source").find("dialect"), nullptr);
}

TEST(PlanId, HoldsTheNumberOfObjectsThatAreKept) {
  Inputs inputs;
  inputs.catalog.objects.resize(3);
  CompiledModel compiled = compile_model(inputs.catalog, inputs.options.mapping);
  EXPECT_EQ(plan_of(inputs, compiled).identity().find("objects"), nullptr);
  compiled.objects = {0, 2};
  EXPECT_EQ(plan_of(inputs, std::move(compiled)).identity().at("objects").as_uint(), 2U);
}

TEST(PlanId, ChangesWithEveryThingThatDecidesAboutBytes) {
  std::set<std::string> ids{plan_of({}).id()};
  for (const InputChange& change : input_changes()) {
    Inputs inputs;
    change.apply(inputs);
    EXPECT_TRUE(ids.insert(plan_of(inputs).id()).second) << change.what;
  }
}

// Inputs that the test can't vary, such as versions, are in the id directly.
TEST(PlanId, HoldsTheHashesAndVersionsItself) {
  Inputs inputs;
  inputs.options.encoding.zstd_level = 3;
  const Plan plan = plan_of(inputs);
  const Json& parts = plan.identity();
  EXPECT_EQ(plan.id(), sha256_hex(dump_json(parts)));
  EXPECT_EQ(parts.at("version"), Json(kVersion));
  EXPECT_EQ(parts.at("zstd"), Json(zstd_version()));
  EXPECT_EQ(parts.at("rules"), Json(sha256_hex(default_axis_rules("maxtext"))));
  EXPECT_EQ(parts.at("family"), Json("qwen3"));
  const auto family = std::ranges::find(embedded_families(), "qwen3", &FamilyFile::name);
  ASSERT_NE(family, embedded_families().end());
  EXPECT_EQ(parts.at("mapping"), Json(sha256_hex(family->text)));
  EXPECT_EQ(parts.at("parts"), Json(sha256_hex(embedded_common())));
  const Json& source = parts.at("source");
  EXPECT_EQ(source.at("config"), Json(sha256_hex(inputs.catalog.config_text)));
  ASSERT_EQ(source.at("files").as_array().size(), 1U);
  EXPECT_EQ(source.at("files").as_array()[0].at("header"), Json("1111"));
}

// The text of a user's own mapping counts, and survives plan.json.
TEST(PlanId, ChangesWithTheTextOfAMappingOfOnesOwn) {
  const std::string text(family_by_name("qwen3").text);
  Inputs inputs;
  const std::string built_in = plan_of(inputs).id();
  inputs.options.mapping.files = {own_mapping("here/mine.json", text)};
  const Plan plan = plan_of(inputs);
  EXPECT_NE(plan.id(), built_in);
  EXPECT_EQ(plan.identity().at("mapping"), Json(sha256_hex(text)));
  inputs.options.mapping.files = {own_mapping("elsewhere/mine.json", text)};
  EXPECT_EQ(plan_of(inputs).id(), plan.id());
  inputs.options.mapping.files = {own_mapping("here/mine.json", text + " ")};
  EXPECT_NE(plan_of(inputs).id(), plan.id());
  const PlanOptions read = options_from_json(plan.identity().at("options"));
  ASSERT_EQ(read.mapping.files.size(), 1U);
  EXPECT_EQ(read.mapping.files[0].family, "qwen3");
  EXPECT_EQ(read.mapping.files[0].name, "mine.json");
  EXPECT_EQ(read.mapping.files[0].text, text);
}

// Without compression the library's version doesn't matter, so an update keeps a run.
TEST(PlanId, TheVersionOfZstdCountsOnlyWhereItCompresses) {
  EXPECT_EQ(plan_of({}).identity().find("zstd"), nullptr);
}

// Changes each member of Limits. A structured binding names them all, so a new one must be
// classified.
TEST(PlanId, ChangesWithTheLimitsThatShapeTheOutputAndNoOthers) {
  Inputs inputs;
  const std::string before = plan_of(inputs).id();
  auto& [floor, fan, fan_small, slab, run, file_min, file_max, file_share, outer_shards, alignment,
         link_piece, merge, segment, unpack, part_run, request, commit, commit_ms, cached] =
      inputs.limits;
  for (std::uint64_t* const shaping : {&floor, &fan, &fan_small, &slab, &run, &file_min, &file_max,
                                       &file_share, &outer_shards, &alignment, &merge}) {
    const std::uint64_t kept = *shaping;
    *shaping *= 2;
    if (shaping == &file_min) *shaping = kept / 2;
    EXPECT_NE(plan_of(inputs).id(), before) << "member " << shaping - &floor;
    *shaping = kept;
  }
  for (std::uint64_t* const other :
       {&link_piece, &segment, &unpack, &part_run, &request, &commit, &commit_ms, &cached}) {
    *other *= 2;
    EXPECT_EQ(plan_of(inputs).id(), before) << "member " << other - &floor;
  }
}

// The place and copy time of a source affect no byte, so another machine can continue.
TEST(PlanId, DoesNotDependOnWhereTheSourceLies) {
  Inputs inputs;
  const std::string before = plan_of(inputs).id();
  inputs.catalog.location = "elsewhere";
  inputs.catalog.files[0].path = "elsewhere/model.safetensors";
  inputs.catalog.files[0].version = "5.6";
  EXPECT_EQ(plan_of(inputs).id(), before);
}

}  // namespace
}  // namespace hfshard
