// Objects of `.metadata` that aren't tensors, and the planner's paths of their names.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/metadata.h"
#include "format/dcp/pickle_writer.h"
#include "format/pickle_opcodes.h"
#include "support/catch_error.h"

namespace hfshard::format::dcp {
namespace {

struct ObjectPlace {
  std::string name;
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string transform = {};
};

using Paths = std::vector<std::pair<std::string, std::vector<std::string>>>;

void begin_instance(PickleWriter& write, const std::string& module, const std::string& name) {
  write.global("torch.distributed.checkpoint." + module, name).op(Op::empty_tuple);
  write.op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
}

// Metadata of these objects, which are described in reverse order.
Metadata read_objects(const std::vector<ObjectPlace>& objects, const Paths& paths = {}) {
  std::string out;
  PickleWriter write(out);
  write.begin();
  begin_instance(write, "metadata", "Metadata");
  write.text("state_dict_metadata").op(Op::empty_dict).op(Op::mark);
  for (std::size_t i = objects.size(); i-- > 0;) {
    write.text(objects[i].name);
    write.global("torch.distributed.checkpoint.metadata", "BytesStorageMetadata");
    write.op(Op::empty_tuple).op(Op::new_obj);
  }
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::mark);
  for (const ObjectPlace& object : objects) {
    begin_instance(write, "metadata", "MetadataIndex");
    write.text("fqn").text(object.name).op(Op::set_items).op(Op::build);
    begin_instance(write, "filesystem", "_StorageInfo");
    write.text("relative_path").text(object.file).text("offset").integer(object.offset);
    write.text("length").integer(object.length);
    if (!object.transform.empty())
      write.text("transform_descriptors").op(Op::empty_list).text(object.transform).op(Op::append);
    write.op(Op::set_items).op(Op::build);
  }
  write.op(Op::set_items).text("planner_data").op(Op::empty_dict).op(Op::mark);
  for (const auto& [name, keys] : paths) {
    write.text(name).op(Op::mark);
    for (const std::string& key : keys) write.text(key);
    write.op(Op::tuple);
  }
  write.op(Op::set_items).op(Op::set_items).op(Op::build).op(Op::stop);
  return read_metadata(out, "memory");
}

TEST(DcpObjects, EachHasItsOwnPlaceAndTransformsAndTheyAreSorted) {
  const Metadata found = read_objects({{"step", "__1_0.distcp", 7, 3},
                                       {"lr", "__0_0.distcp", 0, 5, "stream.zstd/1"},
                                       {"rng", "__1_0.distcp", 10, 4, "unknown"}});
  ASSERT_EQ(found.objects.size(), 3U);
  EXPECT_EQ(found.files, (std::vector<std::string>{"__1_0.distcp", "__0_0.distcp"}));
  std::vector<std::string> names;
  std::vector<std::uint32_t> files;
  std::vector<ByteRange> ranges;
  std::vector<std::vector<std::string>> transforms;
  for (const StoredObject& object : found.objects) {
    names.push_back(object.name);
    files.push_back(object.place.file);
    ranges.push_back(object.place.range());
    transforms.push_back(object.transforms);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"lr", "rng", "step"}));
  EXPECT_EQ(files, (std::vector<std::uint32_t>{1, 0, 0}));
  EXPECT_EQ(ranges, (std::vector<ByteRange>{{0, 5}, {10, 14}, {7, 10}}));
  EXPECT_EQ(transforms,
            (std::vector<std::vector<std::string>>{{"stream.zstd/1"}, {"unknown"}, {}}));
}

TEST(DcpObjects, PathsAreOfKnownNamesAndSorted) {
  const std::vector<ObjectPlace> objects{{"b.x", "f", 0, 1}, {"a.x", "f", 1, 1}};
  const Metadata found =
      read_objects(objects, {{"b.x", {"b", "x"}}, {"other", {"o", "x"}}, {"a.x", {"a", "x"}}});
  EXPECT_EQ(found.nested,
            (std::vector<NestedName>{{"a.x", R"(["a","x"])"}, {"b.x", R"(["b","x"])"}}));
  const Error twice = catch_error([&] {
    read_objects(objects, {{"b.x", {"b", "x"}}, {"b.x", {"b", "y"}}});
  });
  EXPECT_EQ(twice.code(), ErrorCode::corrupt);
  EXPECT_EQ(twice.sentence(), "planner_data has the key twice");
  EXPECT_EQ(twice.tensor(), "b.x");
}

// The default planner gives each key a path.
TEST(DcpObjects, PathsAreKeptOnlyIfAllAreOfTheDefaultPlanner) {
  const std::vector<ObjectPlace> objects{{"a.x", "f", 0, 1}, {"b.x", "f", 1, 1}};
  const std::pair<std::string, std::vector<std::string>> path{"b.x", {"b", "x"}};
  EXPECT_FALSE(read_objects(objects, {path}).other_planner);
  for (const Paths& paths : {Paths{{"a.x", {}}, path}, Paths{path, {"a.x", {}}}}) {
    const Metadata found = read_objects(objects, paths);
    EXPECT_TRUE(found.other_planner) << paths[0].first;
    EXPECT_EQ(found.nested, std::vector<NestedName>()) << paths[0].first;
  }
}

// Metadata whose one entry of the storage data is written by `entry`.
Error refused_entry(const std::function<void(PickleWriter&)>& entry) {
  std::string out;
  PickleWriter write(out);
  write.begin();
  begin_instance(write, "metadata", "Metadata");
  write.text("state_dict_metadata").op(Op::empty_dict).op(Op::mark).text("o");
  write.global("torch.distributed.checkpoint.metadata", "BytesStorageMetadata");
  write.op(Op::empty_tuple).op(Op::new_obj);
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::mark);
  entry(write);
  write.op(Op::set_items).op(Op::set_items).op(Op::build).op(Op::stop);
  return catch_error([&] { read_metadata(out, "memory"); });
}

TEST(DcpObjects, AnInstanceHasMembersAndAtMost64) {
  const Error none = refused_entry([](PickleWriter& write) {
    write.global("torch.distributed.checkpoint.metadata", "MetadataIndex").op(Op::empty_tuple);
    write.op(Op::new_obj).op(Op::none);
  });
  EXPECT_EQ(none.code(), ErrorCode::corrupt);
  EXPECT_EQ(none.sentence(), "a MetadataIndex doesn't have members");
  for (const int more : {62, 63}) {
    const Error error = refused_entry([more](PickleWriter& write) {
      begin_instance(write, "metadata", "MetadataIndex");
      write.text("fqn").text("o").text("index").op(Op::none);
      for (int i = 0; i < more; ++i) write.integer(static_cast<std::uint64_t>(i)).op(Op::none);
      write.op(Op::set_items).op(Op::build).text("no place");
    });
    EXPECT_EQ(error.code(), more == 62 ? ErrorCode::corrupt : ErrorCode::limit);
    EXPECT_EQ(error.sentence(), more == 62 ? "a place that isn't a _StorageInfo"
                                           : "a MetadataIndex has more than 64 members");
  }
}

}  // namespace
}  // namespace hfshard::format::dcp
