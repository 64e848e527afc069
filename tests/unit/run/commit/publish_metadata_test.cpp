// An output says who made it, and an existing root keeps what isn't hfshard's.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/version.h"
#include "mapping/tables/scheme_defaults.h"
#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class PublishedTree : public testing::Test {
 protected:
  std::shared_ptr<const TreeStructure> structure_of(const std::string& out) const {
    return open_checkpoint(out)->catalog().structure;
  }
  // Returns a plan that keeps the structure of an output, as a reshard does.
  PlanParts anew(const std::function<void(TreeStructure&)>& change) const {
    PlanParts out(small_plan(source_));
    TreeStructure tree = *structure_of(out_);
    change(tree);
    out.model.structure = std::make_shared<const TreeStructure>(tree);
    return out;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

TEST_F(PublishedTree, SaysWhoMadeItAndOfWhat) {
  for (const bool stacked : {true, false}) {
    PlanOptions options = small_options();
    options.mapping.stacked = stacked;
    const Plan plan = small_plan(source_, options);
    const RunResult made = convert(plan, to_output(out_));
    const Json attributes = structure_of(out_)->attributes;
    EXPECT_EQ(attributes.at(stacked_flag("maxtext")).as_bool(), stacked);
    EXPECT_EQ(attributes.as_object().size(), 2U);
    const Json& ours = attributes.at("hfshard");
    EXPECT_EQ(ours.at("plan_id").as_string(), plan.id());
    EXPECT_EQ(ours.at("root_digest").as_string(), made.root_digest);
    EXPECT_EQ(ours.at("version").as_string(), kVersion);
    EXPECT_EQ(ours.at("family").as_string(), "qwen3");
    EXPECT_EQ(ours.at("scheme").as_string(), "maxtext");
    EXPECT_EQ(ours.as_object().size(), 5U) << "neither nested nor an item's name";
    remove_tree(out_);
  }
}

TEST_F(PublishedTree, KeepsWhatItsSourceSaysOfItself) {
  convert(small_plan(source_), to_output(out_));
  PlanParts parts = anew([](TreeStructure& tree) {
    tree.attributes["mine"] = 7;
    tree.attributes[stacked_flag("maxtext")] = false;
  });
  parts.catalog.nested = {{"some", R"(["some"])"}};
  parts.facts.options.tree.item_name = "model";
  const RunResult made = convert(parts.build(), to_output(dir_ / "anew"));
  const Json attributes = structure_of(dir_ / "anew")->attributes;
  EXPECT_EQ(attributes.at("mine").as_int(), 7);
  EXPECT_FALSE(attributes.at(stacked_flag("maxtext")).as_bool()) << "as it was";
  const Json& ours = attributes.at("hfshard");
  EXPECT_EQ(ours.at("root_digest").as_string(), made.root_digest);
  EXPECT_TRUE(ours.at("nested").as_bool());
  EXPECT_EQ(ours.at("item").as_string(), "model");
  PlanParts bare = anew([](TreeStructure& tree) { tree.attributes = Json(); });
  convert(bare.build(), to_output(dir_ / "bare"));
  EXPECT_EQ(structure_of(dir_ / "bare")->attributes.as_object().size(), 1U);
}

// An entry that a leaf has already isn't written a second time.
TEST_F(PublishedTree, HasTheStepAndTheStateThatLoadersLookForOnce) {
  convert(small_plan(source_), to_output(out_));
  const auto paths_of = [&](const std::string& out) {
    std::vector<std::string> found;
    const auto tree = structure_of(out);
    for (const TreeEntry& entry : tree->entries) {
      if (!entry.path.starts_with("params.")) found.push_back(entry.path);
    }
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(paths_of(out_), (std::vector<std::string>{"opt_state", "step"}));
  PlanParts parts(small_plan(source_));
  ASSERT_EQ(parts.model.leaves.back().name.substr(0, 7), "params.");
  parts.model.leaves.back().name = "step";
  convert(parts.build(), to_output(dir_ / "own"));
  EXPECT_EQ(paths_of(dir_ / "own"), (std::vector<std::string>{"opt_state", "step"}));
  PlanParts other(small_plan(source_));
  other.model.leaves.front().name = "opt_state.mu";
  convert(other.build(), to_output(dir_ / "state"));
  EXPECT_EQ(paths_of(dir_ / "state"), (std::vector<std::string>{"opt_state.mu", "step"}));
  PlanParts similar(small_plan(source_));
  similar.model.leaves.front().name = "opt_states.mu";
  convert(similar.build(), to_output(dir_ / "similar"));
  EXPECT_EQ(paths_of(dir_ / "similar"),
            (std::vector<std::string>{"opt_state", "opt_states.mu", "step"}));
}

// The axes of the first mesh that the plan has.
TEST_F(PublishedTree, ATreeThatIsKeptIsShardedByTheMesh) {
  convert(small_plan(source_), to_output(out_));
  EXPECT_TRUE(open_checkpoint(out_)->catalog().shardings.empty());
  const PlanParts parts = anew([](TreeStructure& tree) {
    for (TreeEntry& entry : tree.entries) {
      if (entry.kind == TreeEntry::Kind::array) entry.type = "jax.Array";
    }
  });
  convert(parts.build(), to_output(dir_ / "anew"));
  const auto opened = open_checkpoint(dir_ / "anew");
  const Catalog& catalog = opened->catalog();
  ASSERT_EQ(catalog.shardings.size(), catalog.tensors.size());
  const auto axes_of = [&](const char* array) {
    return catalog.shardings[catalog.find(array).value()].mesh_axes;
  };
  using Axes = std::vector<std::vector<std::string>>;
  EXPECT_EQ(axes_of("params.params.token_embedder.embedding"), (Axes{{"tensor"}, {"fsdp"}}));
  EXPECT_EQ(axes_of("params.params.decoder.decoder_norm.scale"), (Axes{{"tensor"}}));
}

TEST_F(PublishedTree, AnHfThatCannotBeReplacedIsNamed) {
  convert(small_plan(source_), to_output(out_));
  const std::string hf = join_path(out_, "hf");
  write_text(join_path(hf, "notes.txt"), "mine");
  PlanOptions other = small_options();
  other.chunk_bytes = 128;
  RunOptions options = to_output(out_);
  options.overwrite = true;
  const Error theirs = catch_error([&] { convert(small_plan(source_, other), options); });
  EXPECT_EQ(theirs.code(), ErrorCode::conflict);
  EXPECT_EQ(theirs.sentence(), "the root has an hf/ with files that hfshard didn't write");
  EXPECT_EQ(theirs.file(), hf);
  EXPECT_EQ(theirs.hint_text(), "move it away; hfshard deletes only what it wrote");
  clean_staging(out_paths(out_));
  remove_tree(join_path(hf, "notes.txt"));
  write_text(join_path(source_, "generation_config.json"), "{}");
  other.step = 1;
  const Error another = catch_error([&] { convert(small_plan(source_, other), to_output(out_)); });
  EXPECT_EQ(another.sentence(), "the root's Hugging Face files differ from this source's");
  EXPECT_EQ(another.hint_text(),
            "the steps of a root must belong to one model; pass another output");
}

// Files can be added to an hf/ that other steps use.
TEST_F(PublishedTree, MoreFilesComeToTheHfOfOtherSteps) {
  convert(small_plan(source_), to_output(out_));
  write_text(join_path(source_, "tokenizer.json"), "{}");
  PlanOptions later = small_options();
  later.step = 1;
  RunOptions options = to_output(out_);
  options.overwrite = true;
  EXPECT_TRUE(convert(small_plan(source_, later), options).published);
  EXPECT_EQ(list_directory(join_path(out_, "hf")),
            (std::vector<std::string>{"config.json", "tokenizer.json"}));
  EXPECT_EQ(list_directory(out_), (std::vector<std::string>{"0", "1", "hf"}));
}

// A run that was interrupted while it published leaves copies in staging.
TEST_F(PublishedTree, CopiesOfAnInterruptedPublishAreMadeAgain) {
  PlanOptions whole;
  whole.target = "safetensors";
  whole.mapping.scheme = "hf";
  for (const PlanOptions& options : {small_options(), whole}) {
    SCOPED_TRACE(options.target);
    const Plan plan = small_plan(source_, options);
    RunOptions worker = to_output(out_);
    worker.workers = 2;
    for (worker.worker = 0; worker.worker < 2; ++worker.worker) convert(plan, worker);
    const std::string tree = out_paths(plan, out_).tree;
    const std::string side = plan.files().side_directory;
    for (const char* stale : {"stale.json", "config.json"})
      write_text(join_path(side.empty() ? tree : join_path(tree, side), stale), "stale");
    if (!side.empty()) write_text(join_path(tree, side + ".swap/stale.json"), "stale");
    QuietReporter reporter;
    run_finalize(plan, format_of(options.target), to_output(out_), reporter);
    convert(plan, to_output(dir_ / "alone"));
    EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
    for (const char* name : {"out", "alone"}) remove_tree(dir_ / name);
  }
}

// Each step of a run brings what the root lacks of it.
TEST_F(PublishedTree, MetadataOfTheRunComesToARootThatHasSomeOfIt) {
  const std::string run = dir_ / "run";
  const std::vector<std::string> files{"a", "b/c", "d"};
  for (const std::string& name : files) write_text(join_path(run, name), "of the run: " + name);
  const auto plan_of = [&](std::uint64_t step) {
    PlanOptions options = small_options();
    options.step = step;
    PlanParts parts(small_plan(source_, options));
    parts.catalog.beside.root = StorePath(run);
    parts.catalog.beside.root_files = files;
    return parts.build();
  };
  convert(plan_of(0), to_output(out_));
  for (std::uint64_t step = 1; step <= files.size(); ++step) {
    const std::string& kept = files[step - 1];
    for (const std::string& name : files) {
      if (name != kept) remove_tree(join_path(out_, name));
    }
    EXPECT_TRUE(convert(plan_of(step), to_output(out_)).published);
    for (const std::string& name : files)
      EXPECT_EQ(read_file(join_path(out_, name)), "of the run: " + name) << kept;
  }
  write_text(join_path(out_, "d"), "of another run");
  const Error error = catch_error([&] { convert(plan_of(9), to_output(out_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the root's metadata differ from this source's run");
  EXPECT_EQ(error.file(), join_path(out_, "d"));
  EXPECT_EQ(error.hint_text(), "the steps of a root must belong to one run; pass another output");
}

TEST_F(PublishedTree, AStepOfAnotherModelIsRefusedBeforeAnythingIsWritten) {
  write_text(join_path(source_, "tokenizer.json"), "{}");
  for (const std::uint64_t step : {0U, 1U}) {
    PlanOptions options = small_options();
    options.step = step;
    convert(small_plan(source_, options), to_output(out_));
  }
  write_text(join_path(source_, "tokenizer.json"), "{} ");
  PlanOptions other = small_options();
  other.chunk_bytes = 128;
  RunOptions overwrite = to_output(out_);
  overwrite.overwrite = true;
  const Error error = catch_error([&] { convert(small_plan(source_, other), overwrite); });
  EXPECT_EQ(error.sentence(), "the root's Hugging Face files differ from this source's");
  EXPECT_FALSE(exists(out_paths(out_).staging));
  remove_tree(join_path(out_, "1"));
  EXPECT_TRUE(convert(small_plan(source_, other), overwrite).published) << "its only step";
  EXPECT_EQ(read_file(join_path(out_, "hf/tokenizer.json")), "{} ");
}

}  // namespace
}  // namespace hfshard
