#include "run/check/object_check.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/memory_store.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Two objects in one file: "lr" and "step".
class ObjectCheckTest : public testing::Test {
 protected:
  ObjectCheckTest() {
    store_->write("file", "aaabbbb");
    catalog_.object_files.emplace_back(store_, "tree/file");
    catalog_.objects = {{"lr", 0, {0, 3}, {}}, {"step", 0, {3, 7}, {}}};
    catalog_.nested = {{"lr", R"(["group",0,"lr"])"}};
    const ObjectReader reader(catalog_.object_files);
    for (const ObjectInfo& object : catalog_.objects)
      recorded_.objects.push_back(
          {object.name, object.size_bytes(), object_sha256(reader, object)});
    recorded_.nested = nested_digest(catalog_.nested, [](const std::string&) { return true; });
  }

  std::vector<std::string> found() const {
    VerifyResult result;
    verify_recorded_objects(catalog_, recorded_, {}, result);
    std::vector<std::string> out;
    for (const Difference& difference : result.differences)
      out.push_back(difference.leaf + ": " + difference.what);
    return out;
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Catalog catalog_;
  OutputDigests recorded_;
};

TEST_F(ObjectCheckTest, WhatIsAsRecordedIsEqual) { EXPECT_TRUE(found().empty()); }

TEST_F(ObjectCheckTest, ObjectsAndTheirBytesAreCounted) {
  VerifyResult result;
  verify_recorded_objects(catalog_, recorded_, {}, result);
  EXPECT_EQ(result.objects, 2U);
  EXPECT_EQ(result.checked_bytes, 7U);
}

TEST_F(ObjectCheckTest, ALaterByteIsFound) {
  store_->write("file", "aaabbbc");
  ASSERT_EQ(found().size(), 1U);
  EXPECT_EQ(found()[0], "step: the object differs from hfshard.json (in memory://tree/file)");
}

TEST_F(ObjectCheckTest, AShortFileIsFound) {
  store_->write("file", "aaabbb");
  ASSERT_EQ(found().size(), 1U);
  EXPECT_TRUE(found()[0].starts_with("step: ")) << found()[0];
  const ObjectReader reader(catalog_.object_files);
  const Error error = catch_error([&] { object_sha256(reader, catalog_.objects[1]); });
  EXPECT_EQ(error.tensor(), "step");
}

TEST_F(ObjectCheckTest, AnotherSizeIsFound) {
  recorded_.objects[1].size_bytes = 5;
  EXPECT_EQ(found(), std::vector<std::string>{"step: the object has 4 bytes, hfshard.json has 5 "
                                              "(in memory://tree/file)"});
}

TEST_F(ObjectCheckTest, MissingAndUnknownObjectsAreFound) {
  catalog_.objects[0].name = "la";
  EXPECT_EQ(found(), (std::vector<std::string>{
                         "la: hfshard.json does not have this object (in memory://tree/file)",
                         "lr: the object is missing"}));
  catalog_.objects[0].name = "lr";
  catalog_.objects[1].name = "stop";  // behind all recorded ones
  EXPECT_EQ(found(), (std::vector<std::string>{
                         "step: the object is missing",
                         "stop: hfshard.json does not have this object (in memory://tree/file)"}));
  catalog_.objects.clear();
  EXPECT_EQ(found().size(), 2U);
}

TEST_F(ObjectCheckTest, OtherKeysAreFound) {
  catalog_.nested[0].keys = R"(["group","0","lr"])";
  ASSERT_EQ(found().size(), 1U);
  EXPECT_EQ(found()[0], ": planner_data of the checkpoint isn't what hfshard.json records");
}

TEST_F(ObjectCheckTest, AMissingFileIsADifferenceOfEachObject) {
  catalog_.object_files[0] = StorePath(store_, "tree/gone");
  const std::vector<std::string> differences = found();
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_TRUE(differences[0].starts_with("lr: ")) << differences[0];
  EXPECT_TRUE(differences[1].starts_with("step: ")) << differences[1];
}

// The output has the objects of the source, each at its place in the saved state.
class SourceObjectsTest : public ObjectCheckTest {
 protected:
  SourceObjectsTest() {
    parts_.catalog.object_files = catalog_.object_files;
    parts_.catalog.objects = catalog_.objects;
    const std::string leaf = parts_.model.leaves.at(0).name;
    catalog_.nested = {{leaf, R"(["w"])"}, {"lr", R"(["group",0,"lr"])"}};
    std::ranges::sort(catalog_.nested, {}, &NestedName::name);
    parts_.catalog.nested = catalog_.nested;
    parts_.model.objects = {0, 1};
    parts_.model.keeps_nested = true;
  }

  std::vector<std::string> differing() const {
    VerifyResult result;
    verify_source_objects(catalog_, parts_.build(), {}, result);
    std::vector<std::string> out;
    for (const Difference& difference : result.differences)
      out.push_back(difference.leaf + ": " + difference.what);
    return out;
  }

  TempDir dir_;
  PlanParts parts_{small_plan(copy_fixture("qwen3", dir_ / "source"))};
};

TEST_F(SourceObjectsTest, AnotherPlaceOfALeafOrAnObjectIsFound) {
  constexpr const char* kOther = ": its place in the saved state (planner_data) is another one";
  EXPECT_EQ(differing(), std::vector<std::string>{});
  for (NestedName& each : catalog_.nested) {
    const std::string keys = std::exchange(each.keys, R"(["elsewhere"])");
    EXPECT_EQ(differing(), std::vector<std::string>{each.name + kOther});
    parts_.model.keeps_nested = false;
    EXPECT_EQ(differing(), std::vector<std::string>{});
    parts_.model.keeps_nested = true;
    each.keys = keys;
  }
}

TEST_F(SourceObjectsTest, OnlyThePlacesOfNamesInTheOutputAreInTheDigests) {
  const auto digests = [&] {
    const Plan plan = parts_.build();
    return output_digests(plan, std::vector<Digest128>(plan.model().digest_slots()), {"a", "b"});
  };
  const OutputDigests before = digests();
  EXPECT_EQ(before.nested, nested_digest(catalog_.nested, [](const std::string&) { return true; }));
  parts_.catalog.nested.push_back({"zeta", R"(["dropped"])"});
  EXPECT_EQ(digests().nested, before.nested);
  EXPECT_EQ(digests().root, before.root);
  for (const std::size_t wanted : {0U, 1U}) {
    const std::string keys = std::exchange(parts_.catalog.nested[wanted].keys, R"(["elsewhere"])");
    EXPECT_NE(digests().nested, before.nested);
    EXPECT_NE(digests().root, before.root);
    parts_.catalog.nested[wanted].keys = keys;
  }
  parts_.model.keeps_nested = false;
  EXPECT_EQ(digests().nested, "");
  EXPECT_NE(digests().root, before.root);
}

TEST(NestedDigest, IsEmptyWithoutAWantedName) {
  const std::vector<NestedName> names = {{"lr", R"(["group",0,"lr"])"}, {"w", R"(["w"])"}};
  EXPECT_EQ(nested_digest(names, [](const std::string&) { return false; }), "");
  EXPECT_EQ(nested_digest(names, [](const std::string& name) { return name == "w"; }),
            nested_digest({names[1]}, [](const std::string&) { return true; }));
}

TEST_F(ObjectCheckTest, ADifferenceHasItsFileAndItsBytes) {
  const auto first = [&](const OutputDigests& recorded) {
    VerifyResult result;
    verify_recorded_objects(catalog_, recorded, {}, result);
    EXPECT_EQ(result.differences.size(), 1U);
    EXPECT_EQ(result.objects, 2U) << "objects that differ are checked too";
    EXPECT_EQ(result.checked_bytes, 7U);
    return result.differences.at(0);
  };
  OutputDigests other = recorded_;
  other.objects[1].size_bytes = 5;
  other.objects[1].sha256.back() = other.objects[1].sha256.back() == '0' ? '1' : '0';
  EXPECT_EQ(first(other).file, "memory://tree/file");
  EXPECT_EQ(first(other).range, (ByteRange{3, 7}));
  store_->write("file", "aaabbb");
  EXPECT_EQ(first(recorded_).file, "memory://tree/file");
}

TEST_F(ObjectCheckTest, MissingObjectsAreNotCounted) {
  catalog_.objects.pop_back();
  VerifyResult result;
  verify_recorded_objects(catalog_, recorded_, {}, result);
  EXPECT_EQ(result.objects, 1U);
  EXPECT_EQ(result.checked_bytes, 3U);
}

TEST_F(SourceObjectsTest, ObjectsAreComparedWithTheSource) {
  const std::string place = " (in memory://tree/file)";
  store_->write("source", "aaabbbc");
  parts_.catalog.object_files[0] = StorePath(store_, "tree/source");
  EXPECT_EQ(differing(),
            std::vector<std::string>{"step: the object differs from the source" + place});
  parts_.catalog.objects[1].range.end = 6;
  EXPECT_EQ(differing(),
            std::vector<std::string>{"step: the object has 4 bytes, the source has 3" + place});
  parts_.model.objects = {0};
  EXPECT_EQ(differing(),
            std::vector<std::string>{"step: the source does not have this object" + place});
  catalog_.objects.erase(catalog_.objects.begin());
  catalog_.objects[0].range = {3, 7};
  parts_.model.objects = {0, 1};
  EXPECT_EQ(differing(),
            (std::vector<std::string>{"lr: the object is missing",
                                      "step: the object has 4 bytes, the source has 3" + place}));
}

TEST_F(ObjectCheckTest, AStoppedRunEnds) {
  std::atomic<bool> stop{true};
  RunOptions options;
  options.stop = &stop;
  VerifyResult result;
  EXPECT_EQ(
      catch_error([&] { verify_recorded_objects(catalog_, recorded_, options, result); }).code(),
      ErrorCode::cancelled);
}

}  // namespace
}  // namespace hfshard
