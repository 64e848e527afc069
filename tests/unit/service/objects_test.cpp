#include "service/objects.h"

#include <string>
#include <utility>
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

TEST(ChooseObjects, ARenamedTreeLosesItsObjectsAndAChosenOneStays) {
  Catalog source = source_of({"b"}, {"epoch", "rate"});
  source.nested = {{"b", R"(["b"])"}};
  const auto why_lost = [&](CompiledModel model, const MappingOptions& options) {
    choose_objects(source, options, format_of("dcp"), model);
    EXPECT_EQ(model.objects.size() + model.left_out.size(), 2U);
    std::vector<std::string> out;
    for (const auto& item : model.left_out) out.push_back(item.name + ": " + item.why);
    return out;
  };
  using ObjectNames = std::vector<std::string>;
  MappingOptions none;
  MappingOptions some;
  some.exclude = {"ep*"};
  const CompiledModel kept = model_of(source, {"b"});
  EXPECT_EQ(why_lost(kept, none), ObjectNames{});
  EXPECT_EQ(why_lost(kept, some), ObjectNames{"epoch: --exclude \"ep*\""});
  some.exclude.clear();
  some.include = {"b", "epoch"};
  EXPECT_EQ(why_lost(kept, some), ObjectNames{"rate: not in --include"});
  const std::string why = "not a tensor, and the names of the checkpoint change";
  CompiledModel other = kept;
  other.leaves[0].name = "c";
  EXPECT_EQ(why_lost(other, none), (ObjectNames{"epoch: " + why, "rate: " + why}));
  EXPECT_EQ(why_lost(other, some), (ObjectNames{"epoch: " + why, "rate: not in --include"}));
  CompiledModel filled = kept;
  filled.fills.emplace_back();
  EXPECT_EQ(why_lost(filled, none), (ObjectNames{"epoch: " + why, "rate: " + why}));
  CompiledModel joined = kept;
  joined.transfers[0].sources.push_back(0);
  EXPECT_EQ(why_lost(joined, none), (ObjectNames{"epoch: " + why, "rate: " + why}));
}

TEST(ChooseObjects, AListCanEndEarlierButHasNoGap) {
  Catalog source = source_of({"a.0", "a.1", "b.0", "b.1"}, {"c.0", "c.1"});
  for (const char* list : {"a", "b", "c"}) {
    for (const char* index : {"0", "1"})
      source.nested.push_back(
          {std::string(list) + "." + index, std::string("[\"") + list + "\", " + index + "]"});
  }
  const auto without = [&](const std::string& name, const std::vector<std::string>& arrays) {
    CompiledModel model = model_of(source, arrays);
    MappingOptions options;
    options.exclude = {name};
    choose_objects(source, options, format_of("dcp"), model);
    return model.objects.size();
  };
  EXPECT_EQ(without("a.1", {"a.0", "b.0", "b.1"}), 2U);
  EXPECT_EQ(without("c.1", {"a.0", "a.1", "b.0", "b.1"}), 1U);
  EXPECT_EQ(without("?.1", {"a.0", "b.0"}), 1U);
  source.location = "state";
  for (const auto& [name, arrays] :
       {std::pair{"b.0", std::vector<std::string>{"a.0", "a.1", "b.1"}},
        {"c.0", {"a.0", "a.1", "b.0", "b.1"}}}) {
    const Error error = catch_error([&] { without(name, arrays); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.tensor(), name);
    EXPECT_EQ(error.file(), "state");
    EXPECT_EQ(error.sentence(),
              "the list would have a gap: this element is left out, and later ones are kept");
    EXPECT_EQ(error.hint_text(),
              "torch can't load a list with a gap; leave out the whole list, or its last elements");
  }
}

TEST(ChooseObjects, OneObjectThatAFormatCantHoldIsCounted) {
  Catalog source = source_of({}, {"epoch"});
  source.location = "state";
  CompiledModel model;
  const Error error =
      catch_error([&] { choose_objects(source, {}, format_of("safetensors"), model); });
  EXPECT_EQ(error.sentence(),
            "no tensors are left to write, and format safetensors can't hold the checkpoint's 1 "
            "object");
  EXPECT_EQ(error.file(), "state");
}

}  // namespace
}  // namespace hfshard
