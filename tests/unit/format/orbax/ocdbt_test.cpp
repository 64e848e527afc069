#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/orbax/ocdbt/reader.h"
#include "format/orbax/ocdbt/writer.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/ocdbt_objects.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

struct Listed {
  bool is_inline = false;
  std::string inline_bytes;
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Listed&, const Listed&) = default;
};

std::map<std::string, Listed> list(const std::string& root) {
  std::map<std::string, Listed> out;
  Database(root).walk([&](const Entry& entry) {
    const Listed value{entry.is_inline, std::string(entry.inline_bytes), std::string(entry.path),
                       entry.offset_bytes, entry.length_bytes};
    EXPECT_TRUE(out.emplace(std::string(entry.key), value).second);
  });
  return out;
}

// Writes a database whose values needn't exist.
struct Database1 {
  TempDir dir;
  std::vector<std::size_t> node_sizes;
  Version root;

  explicit Database1(TreeLimits limits, const std::function<void(TreeWriter&)>& fill) {
    std::string nodes;
    TreeWriter writer(
        "d/n", [](std::uint32_t file) { return "d/v" + std::to_string(file); },
        [&](std::span<const std::byte> bytes) {
          nodes += as_text(bytes);
          node_sizes.push_back(bytes.size());
        },
        limits);
    fill(writer);
    root = writer.finish();
    Manifest manifest = example_manifest("d/n");
    manifest.versions[0] = root;
    write_text(dir / "d/n", nodes);
    write_text(dir / "manifest.ocdbt", encode_manifest(manifest));
  }
};

TEST(OcdbtExamples, ManifestsAreReadAndWrittenByteForByte) {
  EXPECT_EQ(encode_manifest(manifest_a()), kManifestA);
  EXPECT_EQ(decode_m(kManifestA), manifest_a());
  Manifest empty = example_manifest("");
  empty.versions[0].offset_bytes = UINT64_MAX;
  empty.versions[0].length_bytes = UINT64_MAX;
  EXPECT_EQ(encode_manifest(empty), kManifestEmpty);
  EXPECT_EQ(decode_m(kManifestEmpty), empty);
  EXPECT_TRUE(decode_m(kManifestEmpty).versions[0].empty());
}

TEST(OcdbtExamples, LeavesAreReadAndWrittenByteForByte) {
  EXPECT_EQ(encode_node(leaf_a()), kLeafA);
  EXPECT_EQ(decode(kLeafA), leaf_a());
  EXPECT_EQ(encode_node(leaf_c()), kLeafC);
  EXPECT_EQ(decode(kLeafC), leaf_c());
}

// A shared prefix can extend beyond the base path only if both bases are the same.
TEST(OcdbtExamples, FilesOfSeveralBasesComeBack) {
  Node node = leaf_a();
  for (const std::vector<DataFile>& files :
       {std::vector<DataFile>{{"ab/x", 0}, {"ab/y", 3}, {"ab/z", 3}, {"ab/zz", 0}},
        std::vector<DataFile>{{"ab/cd/x", 3}, {"ab/cd/y", 6}, {"ab/cd/z", 6}}}) {
    node.files = files;
    EXPECT_EQ(decode(encode_node(node)), node);
  }
}

TEST(OcdbtExamples, TreeWriterMakesTheTwoLevelTreeByteForByte) {
  std::string nodes;
  TreeWriter writer(
      kNodesB, [](std::uint32_t file) { return file == 0 ? kFileB0 : kFileB1; },
      [&](std::span<const std::byte> bytes) { nodes += as_text(bytes); }, {2, 1 << 20});
  writer.add_range("p.a/c/0", {0, 0, 16});
  writer.add_inline("p.a/zarr.json", R"({"A":1})");
  writer.add_range("p.b/c/0", {1, 0, 16});
  writer.add_inline("p.b/zarr.json", R"({"B":1})");
  Manifest manifest = example_manifest(kNodesB);
  manifest.versions[0] = writer.finish();
  manifest.versions[0].commit_time_ns = kTime;
  EXPECT_EQ(nodes, kLeafB0 + kLeafB1 + kRootB);
  EXPECT_EQ(encode_manifest(manifest), kManifestB);
}

TEST(OcdbtExamples, DatabasesAreListed) {
  TempDir dir;
  write_text(dir / "a/manifest.ocdbt", kManifestA);
  write_text(dir / ("a/" + kFileA), "ABCDEFGH" + kLeafA);
  EXPECT_EQ(list(dir / "a"), (std::map<std::string, Listed>{{"w/.zarray", {true, "{}", "", 0, 2}},
                                                            {"w/0", {false, "", kFileA, 0, 8}}}));
  write_text(dir / "b/manifest.ocdbt", kManifestB);
  write_text(dir / ("b/" + kNodesB), kLeafB0 + kLeafB1 + kRootB);
  EXPECT_EQ(list(dir / "b"),
            (std::map<std::string, Listed>{{"p.a/c/0", {false, "", kFileB0, 0, 16}},
                                           {"p.a/zarr.json", {true, R"({"A":1})", "", 0, 7}},
                                           {"p.b/c/0", {false, "", kFileB1, 0, 16}},
                                           {"p.b/zarr.json", {true, R"({"B":1})", "", 0, 7}}}));
  write_text(dir / "e/manifest.ocdbt", kManifestEmpty);
  EXPECT_TRUE(list(dir / "e").empty());
}

TEST(OcdbtExamples, BasePathsReachTheValues) {
  TempDir dir;
  write_root(dir, kLeafC);
  EXPECT_EQ(list(dir.path()),
            (std::map<std::string, Listed>{{"w/c/0/0", {false, "", kFileC0, 0, 5}},
                                           {"w/c/1/0", {false, "", kFileC1, 0, 5}},
                                           {"w/zarr.json", {true, "{}", "", 0, 2}}}));
}

TEST(OcdbtReader, BasePathsOfParentsArePutInFrontOfTheFilesOfANode) {
  TempDir dir;
  Node above;
  above.files = {{"in/d/n", 3}};
  above.keys = {{0, 9}};
  above.suffixes = "w/.zarray";
  above.height = 1;
  above.children = {{0, 0, kLeafA.size(), 0, {}}};
  const std::string inner = encode_node(above);
  above.height = 2;
  above.files = {{"child/d/n", 6}};
  above.children = {{0, 0, inner.size(), 0, {}}};
  const std::string root = encode_node(above);
  write_root(dir, root, 2);
  write_text(dir / "child/d/n", inner);
  write_text(dir / "child/in/d/n", kLeafA);
  EXPECT_EQ(list(dir.path()).at("w/0").path, "child/in/" + kFileA);
}

TEST(OcdbtReader, AKeyMayEndWhereTheCommonPrefixEnds) {
  const Database1 db({2, 1 << 20}, [](TreeWriter& writer) {
    for (const char* key : {"a", "b", "c"}) writer.add_inline(key, "x");
  });
  EXPECT_EQ(db.root.root_height, 1);
  const auto found = list(db.dir.path());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found.contains("c"));  // alone in its node: its stored key is empty
}

TEST(OcdbtWriter, TreesOfEveryHeightComeBackWithHonestStatistics) {
  for (const std::uint32_t entries : {2U, 3U, 7U, 1000U}) {
    std::map<std::string, Listed> expected;
    for (int i = 0; i < 300; ++i) {
      const std::string leaf = "params.layer_" + std::to_string(i % 17) + "/c/" + std::to_string(i);
      expected[leaf] = {false, "", "d/v" + std::to_string(i % 5), std::uint64_t(i) << 33, 100};
    }
    for (int i = 0; i < 17; ++i) {
      expected["params.layer_" + std::to_string(i) + "/zarr.json"] = {true, "{}", "", 0, 2};
    }
    const Database1 db({entries, 1 << 20}, [&](TreeWriter& writer) {
      for (const auto& [key, value] : expected) {
        if (value.is_inline) {
          writer.add_inline(key, value.inline_bytes);
        } else {
          const auto file = static_cast<std::uint32_t>(value.path.back() - '0');
          writer.add_range(key, {file, value.offset, value.length});
        }
      }
    });
    EXPECT_EQ(list(db.dir.path()), expected) << entries;
    const std::size_t tree_bytes =
        std::accumulate(db.node_sizes.begin(), db.node_sizes.end(), std::size_t{0});
    EXPECT_EQ(db.root.statistics, (Statistics{317, tree_bytes, 30000}));
    EXPECT_EQ(db.root.root_height > 0, entries < 317);
    EXPECT_EQ(db.root.root_height >= 7, entries == 2);
  }
}

TEST(OcdbtWriter, NodesAreCutBySizeToo) {
  const Database1 db({1000, 4096}, [](TreeWriter& writer) {
    for (int i = 100; i < 200; ++i) writer.add_inline(std::to_string(i), std::string(900, 'x'));
  });
  for (const std::size_t size : db.node_sizes) EXPECT_LT(size, 5500U);
  EXPECT_EQ(list(db.dir.path()).size(), 100U);
}

TEST(OcdbtWriter, LongKeysAndLongFileNamesCountToo) {
  const Database1 db({1000, 4096}, [](TreeWriter& writer) {  // long keys reach the inner nodes
    for (int i = 100; i < 200; ++i) {
      const std::string key = std::to_string(i);
      writer.add_inline(key + std::string(900, 'k') + key, std::string(3000, 'x'));
    }
  });
  for (const std::size_t size : db.node_sizes) EXPECT_LT(size, 5500U);
  EXPECT_EQ(list(db.dir.path()).size(), 100U);
  std::vector<std::size_t> sizes;
  TreeWriter writer(
      "d/n", [](std::uint32_t file) { return std::to_string(file) + std::string(700, 'f'); },
      [&](std::span<const std::byte> bytes) { sizes.push_back(bytes.size()); }, {1000, 4096});
  for (std::uint32_t i = 100; i < 200; ++i) writer.add_range(std::to_string(i), {i, 0, 1});
  writer.finish();
  for (const std::size_t size : sizes) EXPECT_LT(size, 5500U);
}

TEST(OcdbtWriter, TheFilesOfALeafAreSortedByPath) {
  std::string nodes;
  TreeWriter writer(
      "d/n", [](std::uint32_t file) { return std::string("d/") + "zma"[file]; },
      [&](std::span<const std::byte> bytes) { nodes += as_text(bytes); });
  writer.add_range("a", {0, 1, 5});
  writer.add_range("b", {1, 2, 5});
  writer.add_inline("c", "{}");
  writer.add_range("d", {2, 3, 5});
  writer.add_range("e", {0, 4, 5});
  writer.finish();
  const Node leaf = decode(nodes);
  EXPECT_EQ(leaf.files, (std::vector<DataFile>{{"d/a", 0}, {"d/m", 0}, {"d/z", 0}}));
  EXPECT_EQ(leaf.values, (std::vector<NodeValue>{{false, 2, 1, 5},
                                                 {false, 1, 2, 5},
                                                 {true, 0, 0, 2},
                                                 {false, 0, 3, 5},
                                                 {false, 2, 4, 5}}));
}

TEST(OcdbtWriter, NoKeysMakeTheEmptyRoot) {
  const Database1 db({}, [](TreeWriter&) {});
  EXPECT_TRUE(db.root.empty());
  EXPECT_TRUE(list(db.dir.path()).empty());
}

TEST(OcdbtWriter, RefusesWhatTheFormatCannotHold) {
  const auto with = [](const std::function<void(TreeWriter&)>& fill) {
    return catch_error([&] { Database1({}, fill); });
  };
  EXPECT_EQ(with([](TreeWriter& w) { w.add_inline(std::string(65536, 'k'), ""); }).code(),
            ErrorCode::limit);
  EXPECT_EQ(with([](TreeWriter& w) { w.add_inline("k", std::string((1 << 20) + 1, 'v')); }).code(),
            ErrorCode::limit);
  const auto twice = [](TreeWriter& w) {
    w.add_inline("b", "");
    w.add_inline("a", "");
  };
  EXPECT_EQ(with(twice).code(), ErrorCode::internal);
}

TEST(OcdbtWriter, HoldsKeysOfTheGreatestLength) {
  const std::string a = std::string(65534, 'k') + "a";
  const std::string b = std::string(65534, 'k') + "b";
  for (const TreeLimits& limits : {TreeLimits{}, TreeLimits{1000, 1}}) {
    const Database1 db(limits, [&](TreeWriter& w) {
      w.add_inline(a, "12");
      w.add_inline(b, std::string(1 << 20, 'v'));
    });
    EXPECT_EQ(list(db.dir.path()).at(b).length, std::uint64_t{1} << 20);
  }
}

TEST(OcdbtManifest, SeveralVersionsAndOlderOnesAreReadOver) {
  Manifest manifest = manifest_a();
  manifest.config.zstd = true;
  manifest.config.zstd_level = -3;
  manifest.config.version_tree_arity_log2 = 16;  // the highest
  manifest.versions.push_back(manifest.versions[0]);
  manifest.versions[1].generation = 17;
  manifest.versions[1].offset_bytes = 4096;
  EXPECT_EQ(decode_m(encode_manifest(manifest)), manifest);
  // One reference to a version tree node: generation, file, offset, length, count, time, height.
  std::string bytes = encode_manifest(manifest);
  bytes.resize(bytes.size() - 5);
  bytes += std::string("\x01\x10\x00\x05\x06\x10", 6) + std::string(8, '\7') + '\1' + "crc!";
  EXPECT_EQ(decode_m(reseal(bytes)), manifest);
}

TEST(OcdbtReader, RelationsBetweenNodesAreChecked) {
  TempDir dir;
  const auto walk_with_root = [&](const std::string& root, const std::string& leaf,
                                  std::uint64_t length) {
    write_root(dir, root, 1, length);
    write_text(dir / "d/leaf", leaf);
    return catch_error([&] { list(dir.path()); });
  };
  Node root;
  root.height = 1;
  root.files = {{"d/leaf", 0}};
  root.keys = {{0, 9}, {2, 1}};
  root.suffixes = "w/.zarray1";
  root.children = {{0, 0, kLeafA.size(), 0, {}}, {0, 0, kLeafA.size(), 0, {}}};
  const std::string bytes = encode_node(root);

  Error e = walk_with_root(bytes, kLeafA, bytes.size());
  EXPECT_EQ(e.code(), ErrorCode::corrupt);  // the second child starts below w/1
  EXPECT_EQ(e.file(), dir / "d/leaf");

  Node repeated = root;
  repeated.suffixes = "w/.zarray0";
  repeated.keys = {{0, 2}, {2, 8}};
  repeated.children[0].common_prefix = repeated.children[1].common_prefix = 0;
  repeated.suffixes = "w/.zarray";
  repeated.keys = {{0, 2}, {2, 7}};
  const std::string again = encode_node(repeated);
  EXPECT_EQ(walk_with_root(again, kLeafA, again.size()).code(),
            ErrorCode::corrupt);  // repeated keys

  Node far = root;
  far.children[1].offset_bytes = std::uint64_t{1} << 63;
  const std::string beyond = encode_node(far);
  e = walk_with_root(beyond, kLeafA, beyond.size());
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
  EXPECT_EQ(e.file(), dir / "d/root");
  EXPECT_NE(e.sentence().find("pass 2^63"), std::string::npos) << e.sentence();

  e = walk_with_root(bytes, kLeafA.substr(0, 60), bytes.size());
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
  EXPECT_EQ(e.range(), (ByteRange{0, kLeafA.size()}));
  EXPECT_EQ(e.total_bytes(), 60U);
  EXPECT_EQ(walk_with_root(kLeafA, kLeafA, kLeafA.size()).code(), ErrorCode::corrupt);  // height
  EXPECT_EQ(walk_with_root(bytes, kLeafA, bytes.size() - 1).code(), ErrorCode::corrupt);
}

// Writes a tree where each node refers to the next one several times, under different keys.
void write_shared_nodes(const TempDir& dir, std::uint8_t height, std::size_t times) {
  Node node;
  node.files = {{"d/n", 0}};
  node.keys = {{0, 1}};
  node.suffixes = "k";
  node.values = {{true, 0, 0, 1}};
  node.inline_bytes = "v";
  std::string nodes;
  std::string last = encode_node(node);
  for (std::uint8_t level = 1; level <= height; ++level) {
    Node above;
    above.height = level;
    above.files = node.files;
    for (std::size_t i = 0; i < times; ++i) {
      above.keys.push_back({0, 1});
      above.suffixes += static_cast<char>('a' + i);
      above.children.push_back({0, nodes.size(), last.size(), 1, {}});
    }
    nodes += last;
    last = encode_node(above);
  }
  Manifest manifest = example_manifest("d/n");
  manifest.versions[0].root_height = height;
  manifest.versions[0].offset_bytes = nodes.size();
  manifest.versions[0].length_bytes = last.size();
  write_text(dir / "d/n", nodes + last);
  write_text(dir / "manifest.ocdbt", encode_manifest(manifest));
}

TEST(OcdbtReader, ANodeMayBeNamedSeveralTimes) {
  const TempDir dir;
  write_shared_nodes(dir, 3, 8);
  const auto keys = list(dir.path());
  EXPECT_EQ(keys.size(), 512U);
  EXPECT_TRUE(keys.contains("abhk"));
}

// A few nodes that refer to each other describe endless trees. Their size bounds the work.
TEST(OcdbtReader, SharedNodesCannotClaimWithoutEnd) {
  for (const int height : {8, 20, 200}) {
    const TempDir dir;
    write_shared_nodes(dir, static_cast<std::uint8_t>(height), 8);
    std::uint64_t visited = 0;
    const Error error =
        catch_error([&] { Database(dir.path()).walk([&](const Entry&) { ++visited; }); });
    EXPECT_EQ(error.code(), ErrorCode::limit);
    EXPECT_EQ(error.file(), dir / "manifest.ocdbt");
    EXPECT_LT(visited, 200'000U);
  }
}

TEST(OcdbtReader, PathsThatLeaveTheDirectoryAreCorrupt) {
  for (const std::string& path : {std::string("../d"), std::string("/etc/passwd"),
                                  std::string("d/../../x"), std::string("d//x"), std::string("./d"),
                                  std::string(), std::string("d/"), std::string("d\0x", 3)}) {
    TempDir dir;
    Node leaf = leaf_a();
    leaf.files = {{path, 0}};
    const std::string bytes = encode_node(leaf);
    write_root(dir, bytes);
    EXPECT_EQ(catch_error([&] { list(dir.path()); }).code(), ErrorCode::corrupt) << path;
  }
}

TEST(OcdbtReader, APathThatIsTooLongWithItsBaseIsCorrupt) {
  TempDir dir;
  Node leaf = leaf_a();
  leaf.files = {{std::string(kMaxPathBytes, 'f'), 0}};
  const std::string bytes = encode_node(leaf);
  Manifest manifest = example_manifest("base/root");
  manifest.versions[0].length_bytes = bytes.size();
  write_text(dir / "base/root", bytes);
  write_text(dir / "manifest.ocdbt", encode_manifest(manifest));
  EXPECT_EQ(list(dir.path()).size(), 2U);
  manifest.files[0].base_bytes = 5;
  write_text(dir / "manifest.ocdbt", encode_manifest(manifest));
  EXPECT_EQ(catch_error([&] { list(dir.path()); }).code(), ErrorCode::corrupt);
}

TEST(OcdbtReader, AKeyInTwoNodesIsCorrupt) {
  TempDir dir;
  const auto leaf = [](const std::vector<std::string>& keys) {
    Node node;
    for (const std::string& key : keys) {
      node.keys.push_back({0, static_cast<std::uint32_t>(key.size())});
      node.suffixes += key;
      node.values.push_back({true, 0, 0, 0});
    }
    return encode_node(node);
  };
  const auto listed = [&](const std::string& first, const std::string& second) {
    Node root;
    root.height = 1;
    root.files = {{"d/leaf", 0}};
    root.keys = {{0, 1}, {0, 1}};
    root.suffixes = "ak";
    root.children = {{0, 0, first.size(), 0, {}}, {0, first.size(), second.size(), 0, {}}};
    const std::string bytes = encode_node(root);
    write_root(dir, bytes, 1);
    write_text(dir / "d/leaf", first + second);
    return list(dir.path()).size();
  };
  EXPECT_EQ(listed(leaf({"a", "b"}), leaf({"k", "l"})), 4U);
  EXPECT_EQ(catch_error([&] {
              listed(leaf({"a", "k"}), leaf({"k", "l"}));
            }).code(),
            ErrorCode::corrupt);
}

TEST(OcdbtReader, ANodeBeyondTheLimitIsRefusedUnread) {
  TempDir dir;
  write_root(dir, kLeafA, 0, kMaxNodeBytes + 1);
  std::filesystem::resize_file(dir / "d/root", kMaxNodeBytes + 1);  // a sparse file
  const Error error = catch_error([&] { list(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.file(), dir / "d/root");
}

TEST(OcdbtReader, MissingFilesAreNotFound) {
  TempDir dir;
  EXPECT_EQ(catch_error([&] { list(dir.path()); }).code(), ErrorCode::not_found);
  write_text(dir / "manifest.ocdbt", kManifestA);
  const Error e = catch_error([&] { list(dir.path()); });
  EXPECT_EQ(e.code(), ErrorCode::not_found);
  EXPECT_EQ(e.file(), dir / kFileA);
}

// The manifest announces numbered ones. The highest of those has the state.
// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/manifest.cc.
TEST(OcdbtDatabase, OfNumberedManifestsTheHighestCounts) {
  const TempDir dir;
  const std::string announced = numbered_manifest();
  write_text(dir / "manifest.ocdbt", announced);
  EXPECT_TRUE(decode_m(announced).is_numbered);
  const auto error = [&] { return catch_error([&] { Database(dir.path()); }); };
  EXPECT_EQ(error().code(), ErrorCode::not_found);
  EXPECT_EQ(error().file(), dir / "manifest.ocdbt");
  Manifest state = manifest_a();
  const auto put = [&](std::uint64_t generation, const std::string& name) {
    state.versions[0].generation = generation;
    write_text(dir / name, encode_manifest(state));
  };
  put(2, "manifest.0000000000000002");
  put(17, "manifest.0000000000000011");
  put(0x99, "manifest.99");
  put(0x99, "manifest.00000000000000099");
  put(99, "manifest.0000000000000099x");
  put(99, "manifest.00000000000000AA");
  put(99, "elements.0000000000000099");
  const Database database(dir.path());
  EXPECT_EQ(database.manifest().versions.back().generation, 17U);
  EXPECT_EQ(database.name(), dir / "manifest.0000000000000011");
  put(18, "manifest.0000000000000012");
  put(17, "manifest.0000000000000013");
  EXPECT_EQ(error().code(), ErrorCode::corrupt);
  EXPECT_EQ(error().file(), dir / "manifest.0000000000000013");
  write_text(dir / "manifest.0000000000000013", announced);
  EXPECT_EQ(error().code(), ErrorCode::corrupt);
  state.uuid[0] = std::byte{77};
  put(19, "manifest.0000000000000013");
  EXPECT_EQ(error().code(), ErrorCode::corrupt);
}

}  // namespace
}  // namespace hfshard::format::orbax::ocdbt
