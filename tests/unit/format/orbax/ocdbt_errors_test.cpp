// Errors of a database say what is wrong, with the numbers that are wrong.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
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

std::string said_of_node(const std::string& bytes) {
  return catch_error([&] { decode(bytes); }).sentence();
}

std::string said_of_leaf(const std::function<void(Node&)>& change) {
  Node node = leaf_a();
  change(node);
  return said_of_node(encode_node(node));
}

std::string said_of_manifest(const std::string& bytes) {
  return catch_error([&] { decode_m(bytes); }).sentence();
}

std::string with_byte(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

TEST(OcdbtErrors, AnEnvelopeSaysWhichFieldIsWrong) {
  EXPECT_EQ(said_of_node("abc"), "index node has 3 bytes; at least 16 are needed");
  EXPECT_EQ(said_of_manifest("abc"), "manifest has 3 bytes; at least 16 are needed");
  EXPECT_EQ(said_of_node(kManifestA), "index node starts with 0cdb3a2a instead of 0cdb20de");
  EXPECT_EQ(said_of_manifest(kLeafA), "manifest starts with 0cdb20de instead of 0cdb3a2a");
  EXPECT_EQ(said_of_node(with_byte(kLeafA, 4, 0x4f)),
            "index node states a length of 79 bytes but has 78");
  EXPECT_EQ(said_of_node(kLeafA.substr(0, 74) + std::string("\1\0\0\0", 4)),
            "index node has checksum 00000001, but fd23515c is computed");
  EXPECT_EQ(said_of_node(reseal(with_byte(kLeafA, 12, 1))),
            "index node has format version 1; 0 is the last known");
  EXPECT_EQ(said_of_node(reseal(with_byte(kLeafA, 13, 2))),
            "index node has the unknown compression 2");
  const std::string packed = said_of_node(reseal(with_byte(kLeafA, 13, 1)));
  EXPECT_TRUE(packed.starts_with("index node holds ")) << packed;
  EXPECT_EQ(said_of_node(reseal(kLeafA.substr(0, 74) + "xy" + kLeafA.substr(74))),
            "2 bytes follow the last field");
}

TEST(OcdbtErrors, AFieldSaysItsNameAndItsNumbers) {
  std::string body(1, '\0');
  put_varint(body, std::uint64_t{1} << 60);
  EXPECT_EQ(said_of_node(seal(kNodeMagic, body)),
            "number of data files is 1152921504606846976, but only 0 bytes are left");
  body = std::string(2, '\0');
  put_varint(body, (1U << 20) + 1);
  EXPECT_EQ(said_of_node(seal(kNodeMagic, body)),
            "number of entries is 1048577; at most 1048576 is allowed");
  EXPECT_EQ(said_of_node(seal(kNodeMagic, std::string("\0\0\1\5xyz", 7))),
            "keys needs 5 bytes where 3 are left");
  EXPECT_EQ(said_of_node(reseal(kLeafA.substr(0, 15) + std::string(12, '\xff') + "1234")),
            "number of data files does not fit in 64 bits");
}

TEST(OcdbtErrors, ALeafSaysWhichEntryIsWrong) {
  const std::string order = "the key after \"w/.zarray\" isn't above it";
  EXPECT_EQ(said_of_leaf([](Node& n) { n.suffixes.back() = '-'; }), order);
  EXPECT_EQ(said_of_leaf([](Node& n) {
              n.keys[1] = {9, 0};
              n.suffixes.pop_back();
            }),
            order);
  EXPECT_EQ(said_of_leaf([](Node& n) { n.keys[1].prefix = 10; }),
            "a key prefix is longer than the key before");
  EXPECT_EQ(said_of_leaf([](Node& n) { n.values[1].file = 1; }), "data file number 1 of 1");
  EXPECT_EQ(said_of_leaf([](Node& n) { n.values[1].offset_bytes = UINT64_MAX; }),
            "offset 18446744073709551615 and length 8 pass 2^63");
  EXPECT_EQ(said_of_leaf([](Node& n) {
              n.values[1] = {false, 0, kMaxEndOffset, 1};
            }),
            "offset 9223372036854775807 and length 1 pass 2^63");
  EXPECT_EQ(said_of_leaf([](Node& n) { n.values[0].length_bytes = kMaxInlineBytes + 1; }),
            "an inline value of 1048577 bytes; at most 1048576 are allowed");
  EXPECT_EQ(said_of_leaf([](Node& n) {
              n.keys = {{0, kMaxKeyBytes}, {kMaxKeyBytes, 1}};
              n.suffixes = std::string(kMaxKeyBytes + 1, 'k');
            }),
            "a key of 65536 bytes");
  EXPECT_EQ(said_of_node(reseal(with_byte(kLeafA, 0x34, 0))), "a node without entries");
  const std::string kind = reseal(with_byte(kLeafA, 0x44, 2));
  EXPECT_EQ(said_of_node(kind), "the unknown value kind 2");
  EXPECT_EQ(catch_error([&] { decode(kind); }).range(), (ByteRange{100 + 0x45, 100 + 74}))
      << "from the byte behind it to the end of the body";
}

TEST(OcdbtErrors, ATableOfDataFilesSaysWhichPathIsWrong) {
  EXPECT_EQ(said_of_leaf([](Node& n) { n.files[0].base_bytes = 35; }),
            "a data file path of 34 bytes with a base path of 35");
  EXPECT_EQ(
      said_of_leaf([](Node& n) {
        n.files = {{std::string(kMaxPathBytes, 'f'), 0}, {std::string(kMaxPathBytes + 1, 'f'), 0}};
      }),
      "a data file path of 65536 bytes with a base path of 0");
  EXPECT_EQ(said_of_node(reseal(with_byte(kLeafC, 16, 0x7f))),
            "a path prefix is longer than the path before");
  EXPECT_EQ(said_of_node(reseal(with_byte(kLeafC, 20, 0x0d))),
            "a path prefix passes the end of its base path");
}

TEST(OcdbtErrors, AnInnerNodeSaysWhichChildIsWrong) {
  Node node;
  node.height = 1;
  node.files = {{"d/n", 0}};
  node.keys = {{0, 2}};
  node.suffixes = "ab";
  const auto said = [&](const NodeChild& child) {
    node.children = {child};
    return said_of_node(encode_node(node));
  };
  EXPECT_EQ(said({0, 0, 10, 3, {}}), "a common prefix is longer than its key");
  EXPECT_EQ(said({1, 0, 10, 0, {}}), "data file number 1 of 1");
  EXPECT_EQ(said({0, kMaxEndOffset, 10, 0, {}}),
            "offset 9223372036854775807 and length 10 pass 2^63");
}

TEST(OcdbtErrors, AManifestSaysWhichFieldIsWrong) {
  const auto said = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = manifest_a();
    change(manifest);
    return said_of_manifest(encode_manifest(manifest));
  };
  EXPECT_EQ(said([](Manifest& m) { m.versions[0].generation = 0; }),
            "generation 0 is not above the one before");
  EXPECT_EQ(said([](Manifest& m) { m.versions.push_back(m.versions[0]); }),
            "generation 1 is not above the one before");
  EXPECT_EQ(said([](Manifest& m) { m.versions[0].file = 1; }), "data file number 1 of 1");
  EXPECT_EQ(said([](Manifest& m) { m.config.version_tree_arity_log2 = 0; }),
            "a version tree arity of 2^0");
  EXPECT_EQ(said([](Manifest& m) { m.config.version_tree_arity_log2 = 17; }),
            "a version tree arity of 2^17");
  EXPECT_EQ(said([](Manifest& m) {
              m.config.version_tree_arity_log2 = 1;
              m.versions.resize(3);
            }),
            "number of versions is 3; at most 2 is allowed");
  EXPECT_EQ(said([](Manifest& m) { m.versions[0].offset_bytes = kMaxEndOffset; }),
            "root offset 9223372036854775807 and length 78 pass 2^63");
  EXPECT_EQ(said([](Manifest& m) { m.versions[0].length_bytes = UINT64_MAX; }),
            "a root that is half absent");
  EXPECT_EQ(said_of_manifest(reseal(with_byte(kManifestA, 30, 2))), "the unknown manifest kind 2");
  EXPECT_EQ(said_of_manifest(reseal(with_byte(kManifestA, 30, 1))),
            "55 bytes follow the last field")
      << "numbered, with a state";
  EXPECT_EQ(said_of_manifest(reseal(with_byte(kManifestA, 38, 2))),
            "compression method is 2; at most 1 is allowed");
  EXPECT_EQ(said_of_manifest(reseal(with_byte(kManifestA, 76, 0))), "a manifest without a version");
  EXPECT_EQ(said_of_manifest(reseal(kManifestA.substr(0, kManifestA.size() - 5) +
                                    std::string("\x01\x10\x01\x05\x06\x10", 6) +
                                    std::string(8, '\7') + "\1crc!")),
            "a version node in an unknown data file");
}

// Returns the error for a database with this root, and `leaf` in the file of its children.
Error error_of_walk(const std::string& root, std::uint8_t height, const std::string& leaf,
                    std::optional<std::uint64_t> stated_bytes = {}) {
  const TempDir dir;
  write_root(dir, root, height, stated_bytes);
  write_text(dir / "d/leaf", leaf);
  const Error error = catch_error([&] { Database(dir.path()).walk([](const Entry&) {}); });
  EXPECT_TRUE(error.file().starts_with(dir.path())) << error.file();
  return error;
}

std::string node_above(const std::vector<std::string>& first_keys, std::uint64_t leaf_bytes) {
  Node node;
  node.height = 1;
  node.files = {{"d/leaf", 0}};
  for (const std::string& key : first_keys) {
    node.keys.push_back({0, static_cast<std::uint32_t>(key.size())});
    node.suffixes += key;
    node.children.push_back({0, 0, leaf_bytes, 0, {}});
  }
  return encode_node(node);
}

TEST(OcdbtErrors, AWalkSaysWhichNodeIsWrong) {
  EXPECT_EQ(error_of_walk(kLeafA, 1, "").sentence(), "an index node of height 0 instead of 1");
  EXPECT_EQ(error_of_walk(node_above({"x"}, kLeafA.size()), 1, kLeafA).sentence(),
            "an index node starts below the key that its parent states");
  const Error twice = error_of_walk(node_above({"v", "w"}, kLeafA.size()), 1, kLeafA);
  EXPECT_EQ(twice.sentence(), "key \"w/.zarray\" of the index isn't above \"w/0\"");
  EXPECT_TRUE(twice.file().ends_with("/manifest.ocdbt")) << twice.file();
  const Error cut = error_of_walk(node_above({"w"}, kLeafA.size()), 1, kLeafA.substr(0, 60));
  EXPECT_EQ(cut.sentence(), "an index node passes the end of the file");
  EXPECT_TRUE(cut.file().ends_with("/d/leaf")) << cut.file();
  Node leaf = leaf_a();
  leaf.files = {{"../d", 0}};
  const Error away = error_of_walk(encode_node(leaf), 0, "");
  EXPECT_EQ(away.sentence(), "the index names the data file \"../d\"");
  EXPECT_TRUE(away.file().ends_with("/manifest.ocdbt")) << away.file();
}

TEST(OcdbtErrors, ANodeBeyondTheLimitIsNamedWithItsLength) {
  const TempDir dir;
  write_root(dir, kLeafA, 0, kMaxNodeBytes + 1);
  std::filesystem::resize_file(dir / "d/root", kMaxNodeBytes + 1);  // a sparse file
  const Error error = catch_error([&] { Database(dir.path()).walk([](const Entry&) {}); });
  EXPECT_EQ(error.sentence(), "an index node of 536870913 bytes; hfshard reads at most 536870912");
}

TEST(OcdbtErrors, NumberedManifestsAreOfTheDatabaseAndOfTheirGeneration) {
  const TempDir dir;
  const std::string announced = numbered_manifest();
  write_text(dir / "manifest.ocdbt", announced);
  const auto said = [&] { return catch_error([&] { Database(dir.path()); }).sentence(); };
  EXPECT_EQ(said(), "the numbered manifests that it names are missing");
  Manifest state = manifest_a();
  const auto put = [&](std::uint64_t generation) {
    state.versions[0].generation = generation;
    write_text(dir / "manifest.0000000000000012", encode_manifest(state));
  };
  put(17);
  EXPECT_EQ(said(), "a numbered manifest of generation 17");
  put(18);
  EXPECT_EQ(Database(dir.path()).manifest().versions.back().generation, 18U);
  state.uuid[0] = std::byte{77};
  put(18);
  EXPECT_EQ(said(), "a numbered manifest of another database");
  write_text(dir / "manifest.0000000000000012", announced);
  EXPECT_EQ(said(), "a numbered manifest of another database");
}

TEST(OcdbtErrors, AWriterNamesTheKeyThatIsTooLongOrHasTooMuch) {
  const auto refused = [](const std::string& key, const std::string& value) {
    TreeWriter writer(
        "d/n", [](std::uint32_t) { return "d/v"; }, [](std::span<const std::byte>) {});
    return catch_error([&] { writer.add_inline(key, value); });
  };
  const Error value = refused("k", std::string((1 << 20) + 1, 'v'));
  EXPECT_EQ(value.sentence(), "an inline value of 1048577 bytes; OCDBT allows 1048576");
  EXPECT_EQ(value.tensor(), "k");
  const std::string longest(65536, 'k');
  const Error key = refused(longest, "");
  EXPECT_EQ(key.sentence(), "a key of 65536 bytes; OCDBT allows 65535");
  EXPECT_EQ(key.tensor(), longest);
}

}  // namespace
}  // namespace hfshard::format::orbax::ocdbt
