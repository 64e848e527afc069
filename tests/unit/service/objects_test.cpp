#include "service/objects.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "support/catch_error.h"

namespace hfshard {
namespace {

// Returns a source with these arrays and these objects, sorted by name.
Catalog source_of(const std::vector<std::string>& arrays, const std::vector<std::string>& objects) {
  Catalog out;
  for (const std::string& name : arrays) out.tensors.emplace_back().name = name;
  for (const std::string& name : objects) out.objects.emplace_back().name = name;
  return out;
}

// Returns a model that keeps these arrays of the source.
CompiledModel model_of(const Catalog& source, const std::vector<std::string>& names) {
  CompiledModel out;
  for (const std::string& name : names) {
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(out.leaves.size());
    transfer.sources = {source.find(name).value()};
    out.leaves.emplace_back().name = name;
    out.transfers.push_back(transfer);
  }
  return out;
}

TEST(ChooseObjects, AGapInAListIsNamedByItsFirstPart) {
  Catalog source = source_of({"list.0.a", "list.0.b", "list.1.a"}, {});
  source.nested = {{"list.0.a", R"(["list", 0, "a"])"},
                   {"list.0.b", R"(["list", 0, "b"])"},
                   {"list.1.a", R"(["list", 1, "a"])"}};
  CompiledModel model = model_of(source, {"list.1.a"});
  const Error error = catch_error([&] { choose_objects(source, {}, format_of("dcp"), model); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), "list.0.a");
  CompiledModel part = model_of(source, {"list.0.b", "list.1.a"});
  EXPECT_NO_THROW(choose_objects(source, {}, format_of("dcp"), part));
}

TEST(ChooseObjects, AFormatThatHoldsNoObjectsNeedsATensor) {
  const Catalog source = source_of({"w"}, {"epoch", "rate"});
  CompiledModel model;
  const Error error = catch_error([&] { choose_objects(source, {}, format_of("orbax"), model); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "no tensors are left to write, and format orbax can't hold the checkpoint's 2 objects");
  EXPECT_EQ(error.hint_text(), "run reshard --to dcp to keep objects; hfshard inspect lists them");
  CompiledModel some = model_of(source, {"w"});
  choose_objects(source, {}, format_of("orbax"), some);
  ASSERT_EQ(some.left_out.size(), 2U);
  EXPECT_EQ(some.left_out[1].name, "rate");
  EXPECT_EQ(some.left_out[1].why, "not a tensor, which the format orbax can't hold");
}

TEST(ChooseObjects, ObjectsAloneAreACheckpoint) {
  const Catalog source = source_of({}, {"epoch", "rate"});
  CompiledModel model;
  choose_objects(source, {}, format_of("dcp"), model);
  EXPECT_EQ(model.objects, (std::vector<std::uint32_t>{0, 1}));
}

TEST(ChooseObjects, AFormatThatDiscardsAllLosesNothing) {
  const Catalog source = source_of({}, {"epoch"});
  CompiledModel model;
  choose_objects(source, {}, format_of("null"), model);
  EXPECT_TRUE(model.objects.empty());
  EXPECT_TRUE(model.left_out.empty());
}

}  // namespace
}  // namespace hfshard
