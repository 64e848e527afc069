#include "run/check/object_check.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/memory_store.h"

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
  EXPECT_TRUE(found()[0].starts_with(": planner_data")) << found()[0];
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
