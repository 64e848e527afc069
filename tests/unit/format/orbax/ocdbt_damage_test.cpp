#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/orbax/ocdbt/reader.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/zstd_frames.h"
#include "unit/format/orbax/ocdbt_objects.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

TEST(OcdbtDamage, EveryFlippedByteOfANodeOrManifestIsCorrupt) {
  for (const std::string& good : {kLeafA, kLeafC, kRootB, kManifestB, kManifestEmpty}) {
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x20);
      const bool manifest = good[2] == kManifestA[2];
      const Error e = catch_error([&] {
        if (manifest) {
          decode_m(bad);
        } else {
          decode(bad);
        }
      });
      EXPECT_EQ(e.code(), ErrorCode::corrupt) << i;
      EXPECT_EQ(e.file(), manifest ? "manifest.ocdbt" : "d/node");
    }
  }
}

TEST(OcdbtDamage, EveryTruncationIsCorruptEvenWithARightChecksum) {
  for (std::size_t size = 0; size < kLeafC.size(); ++size) {
    std::string bad = kLeafC.substr(0, size);
    EXPECT_EQ(catch_error([&] { decode(bad); }).code(), ErrorCode::corrupt) << size;
    if (size < 18) continue;
    bad = reseal(bad);
    const Error e = catch_error([&] { decode(bad); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt) << size;
    EXPECT_EQ(e.file(), "d/node");
    EXPECT_TRUE(e.range().has_value());
  }
  for (std::size_t size = 18; size < kManifestB.size(); ++size) {
    const std::string bad = reseal(kManifestB.substr(0, size));
    EXPECT_EQ(catch_error([&] { decode_m(bad); }).code(), ErrorCode::corrupt) << size;
  }
}

TEST(OcdbtDamage, EveryChangedBodyByteIsReadOrCorruptButNeverWorse) {
  for (const std::string& good : {kLeafA, kLeafC, kRootB}) {
    for (std::size_t i = 14; i + 4 < good.size(); ++i) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        std::string bad = good;
        bad[i] = static_cast<char>(value);
        try {
          decode(reseal(bad));
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ErrorCode::corrupt);
        }
      }
    }
  }
}

struct Damage {
  const char* what;
  std::string bytes;
  ErrorCode code;
};

TEST(OcdbtDamage, ANumberBeyond64BitsIsCorrupt) {
  const Origin origin{"f", 0, 10};
  const auto read = [&](char last) {
    const std::string bytes = std::string(9, '\xff') + last;
    return Cursor(as_bytes(bytes), origin, 0).varint("number");
  };
  EXPECT_EQ(read(1), UINT64_MAX);
  for (const char last : {'\2', '\3', '\x7f'}) {
    EXPECT_EQ(catch_error([&] { read(last); }).code(), ErrorCode::corrupt);
  }
}

TEST(OcdbtDamage, EnvelopeFieldsAreChecked) {
  const auto with = [](std::size_t at, char value) {
    std::string bad = kLeafA;
    bad[at] = value;
    return reseal(bad);
  };
  std::string wrong_length = kLeafA;
  wrong_length[4] = 0x4f;
  const std::vector<Damage> cases{
      {"magic", with(3, '\xdf'), ErrorCode::corrupt},
      {"manifest for a node", kManifestA, ErrorCode::corrupt},
      {"length", wrong_length, ErrorCode::corrupt},
      {"version", with(12, 1), ErrorCode::corrupt},
      {"plain body said to be zstd", with(13, 1), ErrorCode::corrupt},
      {"unknown compression", with(13, 2), ErrorCode::corrupt},
      {"trailing byte", reseal(kLeafA.substr(0, 74) + "x" + kLeafA.substr(74)), ErrorCode::corrupt},
  };
  for (const Damage& damage : cases) {
    const Error e = catch_error([&] { decode(damage.bytes); });
    EXPECT_EQ(e.code(), damage.code) << damage.what;
    EXPECT_EQ(e.file(), "d/node") << damage.what;
  }
  EXPECT_EQ(catch_error([&] { decode(wrong_length); }).range(), (ByteRange{100, 178}));
}

// Returns an envelope with its body as one zstd frame, and bytes behind it.
std::string zipped(std::string envelope, const FrameOptions& options = {},
                   const std::string& behind = "") {
  const std::string body = envelope.substr(14, envelope.size() - 18);
  envelope[13] = 1;
  return reseal(envelope.substr(0, 14) + zstd_frame(body, options) + behind + "1234");
}

TEST(OcdbtZstd, CompressedObjectsAreThePlainOnes) {
  for (const bool stated : {false, true}) {
    const FrameOptions options{1, 0, stated, stated};
    EXPECT_EQ(decode(zipped(kLeafA, options)), decode(kLeafA));
    EXPECT_EQ(decode(zipped(kRootB, options)), decode(kRootB));
    EXPECT_EQ(decode_m(zipped(kManifestB, options)), decode_m(kManifestB));
  }
}

TEST(OcdbtZstd, DamageNamesTheWholeObject) {
  const std::string frame = zipped(kLeafA);
  std::string short_body = kLeafA;
  short_body.erase(60, 1);
  const std::vector<std::pair<const char*, std::string>> cases{
      {"truncated", reseal(frame.substr(0, frame.size() - 6) + "1234")},
      {"bytes behind", zipped(kLeafA, {}, "x")},
      {"a second frame", zipped(kLeafA, {}, zstd_frame("x"))},
      {"a body too short", zipped(short_body)},
      {"a body too long", zipped(kLeafA.substr(0, 74) + "x" + kLeafA.substr(74))},
  };
  for (const auto& [what, bytes] : cases) {
    const Error e = catch_error([&, &at = bytes] { decode(at); });
    EXPECT_EQ(e.code(), ErrorCode::corrupt) << what;
    EXPECT_EQ(e.file(), "d/node") << what;
    EXPECT_EQ(e.range(), (ByteRange{100, 100 + bytes.size()})) << what;
  }
}

TEST(OcdbtZstd, ABodyBeyondTheLimitIsRefused) {
  // A frame that states 2^30 bytes of content and has an empty block.
  const std::string frame("\x28\xb5\x2f\xfd\xa0\0\0\0\x40\x01\0\0", 12);
  std::string bad = kLeafA.substr(0, 14) + frame + "1234";
  bad[13] = 1;
  const Error e = catch_error([&] { decode(reseal(bad)); });
  EXPECT_EQ(e.code(), ErrorCode::limit);
  EXPECT_EQ(e.file(), "d/node");
}

TEST(OcdbtDamage, NodeFieldsAreChecked) {
  const auto leaf = [](const std::function<void(Node&)>& change) {
    Node node = leaf_a();
    change(node);
    return encode_node(node);
  };
  const std::vector<std::pair<const char*, std::string>> cases{
      {"keys out of order", leaf([](Node& n) { n.suffixes.back() = '-'; })},
      {"equal keys", leaf([](Node& n) {
         n.keys[1] = {9, 0};
         n.suffixes.pop_back();
       })},
      {"prefix too long", leaf([](Node& n) { n.keys[1].prefix = 10; })},
      {"file number", leaf([](Node& n) { n.values[1].file = 1; })},
      {"offset", leaf([](Node& n) { n.values[1].offset_bytes = UINT64_MAX; })},
      {"end", leaf([](Node& n) {
         n.values[1] = {false, 0, kMaxEndOffset, 1};
       })},
      {"inline too long", leaf([](Node& n) { n.values[0].length_bytes = kMaxInlineBytes + 1; })},
      {"base path too long", leaf([](Node& n) { n.files[0].base_bytes = 35; })},
      {"a key too long", leaf([](Node& n) {
         n.keys = {{0, kMaxKeyBytes}, {kMaxKeyBytes, 1}};
         n.suffixes = std::string(kMaxKeyBytes + 1, 'k');
       })},
      {"a path too long", leaf([](Node& n) {
         n.files = {{std::string(kMaxPathBytes, 'f'), 0}, {std::string(kMaxPathBytes + 1, 'f'), 0}};
       })},
      {"a path prefix longer than the path before",
       [] {
         std::string bad = kLeafC;
         bad[16] = 0x7f;
         return reseal(bad);
       }()},
      {"a path prefix beyond its base path",
       [] {
         std::string bad = kLeafC;
         bad[20] = 0x0d;
         return reseal(bad);
       }()},
      {"a common prefix longer than its key",
       [] {
         Node node;
         node.height = 1;
         node.files = {{"d/n", 0}};
         node.keys = {{0, 2}};
         node.suffixes = "ab";
         node.children = {{0, 0, 10, 3, {}}};
         return encode_node(node);
       }()},
      {"value kind",
       [] {
         std::string bad = kLeafA;
         bad[0x44] = 2;
         return reseal(bad);
       }()},
      {"no entries",
       [] {
         std::string bad = kLeafA;
         bad[0x34] = 0;
         return reseal(bad);
       }()},
      {"varint without end", reseal(kLeafA.substr(0, 15) + std::string(12, '\xff') + "1234")},
  };
  for (const auto& [what, bytes] : cases) {
    EXPECT_EQ(catch_error([&] { decode(bytes); }).code(), ErrorCode::corrupt) << what;
  }
}

TEST(OcdbtDamage, HugeCountsAreRefusedBeforeMemoryIsTaken) {
  std::string body(1, '\0');
  put_varint(body, std::uint64_t{1} << 60);
  EXPECT_EQ(catch_error([&] { decode(seal(kNodeMagic, body)); }).code(), ErrorCode::corrupt);
  body.resize(1);
  put_varint(body, 0);
  put_varint(body, (1U << 20) + 1);
  EXPECT_EQ(catch_error([&] { decode(seal(kNodeMagic, body)); }).code(), ErrorCode::corrupt);
}

TEST(OcdbtDamage, ManifestFieldsAreChecked) {
  const auto with = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = manifest_a();
    change(manifest);
    return encode_manifest(manifest);
  };
  const std::vector<Damage> cases{
      {"generation 0", with([](Manifest& m) { m.versions[0].generation = 0; }), ErrorCode::corrupt},
      {"generations in place", with([](Manifest& m) { m.versions.push_back(m.versions[0]); }),
       ErrorCode::corrupt},
      {"root file", with([](Manifest& m) { m.versions[0].file = 1; }), ErrorCode::corrupt},
      {"arity 0", with([](Manifest& m) { m.config.version_tree_arity_log2 = 0; }),
       ErrorCode::corrupt},
      {"arity 17", with([](Manifest& m) { m.config.version_tree_arity_log2 = 17; }),
       ErrorCode::corrupt},
      {"root end", with([](Manifest& m) { m.versions[0].offset_bytes = kMaxEndOffset; }),
       ErrorCode::corrupt},
      {"half a root", with([](Manifest& m) { m.versions[0].length_bytes = UINT64_MAX; }),
       ErrorCode::corrupt},
      {"an empty root with a height", with([](Manifest& m) {
         m.versions[0].offset_bytes = m.versions[0].length_bytes = UINT64_MAX;
         m.versions[0].root_height = 1;
       }),
       ErrorCode::corrupt},
      {"file of an older version",
       reseal(kManifestA.substr(0, kManifestA.size() - 5) +
              std::string("\x01\x10\x01\x05\x06\x10", 6) + std::string(8, '\7') + "\1crc!"),
       ErrorCode::corrupt},
      {"numbered, with a state", reseal(kManifestA.substr(0, 30) + '\1' + kManifestA.substr(31)),
       ErrorCode::corrupt},
      {"unknown kind", reseal(kManifestA.substr(0, 30) + '\2' + kManifestA.substr(31)),
       ErrorCode::corrupt},
      {"file behind the end", kManifestA + "x", ErrorCode::corrupt},
  };
  for (const Damage& damage : cases) {
    const Error e = catch_error([&] { decode_m(damage.bytes); });
    EXPECT_EQ(e.code(), damage.code) << damage.what;
    EXPECT_EQ(e.file(), "manifest.ocdbt");
  }
}

// TensorStore copies a range of keys by naming its node again.
TEST(OcdbtReader, ANodeCanBeNamedSixteenTimesMore) {
  Node leaf;
  leaf.keys = {{0, 1}};
  leaf.suffixes = "k";
  leaf.inline_bytes = std::string(std::size_t{1} << 18, 'v');
  leaf.values = {{true, 0, 0, leaf.inline_bytes.size()}};
  const std::string bytes = encode_node(leaf);
  const TempDir dir;
  write_text(dir / "d/leaf", bytes);
  const auto keys_of = [&](std::size_t times) {
    Node root;
    root.height = 1;
    root.files = {{"d/leaf", 0}};
    for (std::size_t i = 0; i < times; ++i) {
      root.keys.push_back({0, 1});
      root.suffixes += static_cast<char>('a' + i);
      root.children.push_back({0, 0, bytes.size(), 1, {}});
    }
    const std::string text = encode_node(root);
    write_root(dir, text, 1);
    std::string keys;
    Database(dir.path()).walk([&](const Entry& entry) { keys += std::string(entry.key) + " "; });
    return keys;
  };
  EXPECT_EQ(keys_of(3), "ak bk ck ");
  EXPECT_EQ(keys_of(17).size(), 51U);
  const Error error = catch_error([&] { keys_of(18); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(), "the index names its 2 nodes over and over");
}

}  // namespace
}  // namespace hfshard::format::orbax::ocdbt
