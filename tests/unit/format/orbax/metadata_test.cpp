#include "format/orbax/metadata.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "base/json.h"
#include "catalog/tree_structure.h"
#include "format/orbax/ocdbt/reader.h"
#include "format/orbax/tree.h"
#include "support/catch_error.h"
#include "support/json_rejections.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/builder.h"

namespace hfshard::format::orbax {
namespace {

std::string text_of(const SideFile& side) {
  std::string out;
  side.write([&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

std::string tree_text(const TreeSpec& tree) {
  std::string out;
  write_tree_metadata(tree, [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

TEST(OrbaxMetadata, SideFilesComeInCommitOrder) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {2}).build();
  std::vector<std::string> paths;
  for (const SideFile& side : orbax_format().metadata(builder.tree(), builder)) {
    paths.push_back(side.path);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"items/d/btree", "items/manifest.ocdbt",
                                             "items/_METADATA", "items/commit_success.txt",
                                             "_CHECKPOINT_METADATA", "commit_success.txt"}));
  const FileLayout layout = orbax_format().layout();
  EXPECT_EQ(layout.step_directory(7), "7");
  EXPECT_EQ(layout.item, "items");
  EXPECT_EQ(layout.data_file(12, 13), "d/00012");
  EXPECT_EQ(layout.data_file(123456, 123457), "d/123456");
  EXPECT_EQ(layout.linked_prefix, "d/");
  EXPECT_EQ(layout.commit_file, "manifest.ocdbt");
  EXPECT_EQ(layout.begin_bytes(4096), 0U);
  EXPECT_EQ(layout.refused_request_bytes, std::uint64_t{96} * 1000 * 1000 * 1000);
}

// Only with a structure can a key be empty, or have a slash.
std::shared_ptr<const TreeStructure> structure_of(const std::vector<Leaf>& leaves) {
  TreeStructure out;
  for (const Leaf& leaf : leaves) {
    TreeEntry& entry = out.entries.emplace_back();
    entry.add_key(leaf.name, /*is_index=*/false);
    entry.type = "np.ndarray";
  }
  return std::make_shared<const TreeStructure>(std::move(out));
}

TEST(OrbaxMetadata, AnyOrderOfWritingGivesTheSameBytes) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {40}, {2}).build();
  const auto first = orbax_format().metadata(builder.tree(), builder);
  const auto second = orbax_format().metadata(builder.tree(), builder);
  std::vector<std::string> forward;
  for (const SideFile& side : first) forward.push_back(text_of(side));
  for (std::size_t i = second.size(); i-- > 0;) EXPECT_EQ(text_of(second[i]), forward[i]);
  EXPECT_EQ(text_of(first[0]), forward[0]);
  EXPECT_EQ(text_of(first[1]), forward[1]);
}

TEST(OrbaxMetadata, TreeTextIsAsOrbaxWantsIt) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  EXPECT_EQ(tree_text(builder.tree()),
            R"~({"tree_metadata":{"('step',)":{"key_metadata":[{"key":"step","key_type":2}],)~"
            R"~("value_metadata":{"skip_deserialize":false,"value_type":"scalar"}},)~"
            R"~("('params', 'params', 'w')":{"key_metadata":[{"key":"params","key_type":2},)~"
            R"~({"key":"params","key_type":2},{"key":"w","key_type":2}],)~"
            R"~("value_metadata":{"skip_deserialize":false,"value_type":"np.ndarray"}},)~"
            R"~("('opt_state',)":{"key_metadata":[{"key":"opt_state","key_type":2}],)~"
            R"~("value_metadata":{"skip_deserialize":true,"value_type":"Dict"}}},)~"
            R"~("use_ocdbt":true,"use_zarr3":true,"store_array_data_equal_to_fill_value":true,)~"
            R"~("custom_metadata":{"scan_layers":true}})~");
  parse_json(tree_text(builder.tree()), "_METADATA");
}

TEST(OrbaxMetadata, WithoutTrainStateThereAreOnlyTheLeaves) {
  OrbaxBuilder builder;
  builder.tree().extras = {};
  builder.leaf("step", DType::f32, {4}, {4}).build();  // the name is free here
  const Json json = parse_json(tree_text(builder.tree()), "_METADATA");
  EXPECT_EQ(json.at("tree_metadata").as_object().size(), 1U);
  TempDir dir;
  builder.write(dir / "0");
  EXPECT_EQ(orbax_format().open(dir.path())->catalog().tensors.size(), 1U);
}

TEST(OrbaxMetadata, NamesOfTheTrainStateAreTaken) {
  for (const char* name : {"step", "opt_state", "opt_state.mu"}) {
    OrbaxBuilder builder;
    builder.leaf(name, DType::f32, {4}, {4}).build();
    const Error e = catch_error([&] { side_files(builder.tree(), builder); });
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_EQ(e.tensor(), name);
  }
}

// Expected texts: CPython 3.11, str() of the tuple.
TEST(OrbaxMetadata, TupleTextIsPythons) {
  EXPECT_EQ(tuple_text({}), "()");
  EXPECT_EQ(tuple_text({"a"}), "('a',)");
  EXPECT_EQ(tuple_text({"a", "b c"}), "('a', 'b c')");
  EXPECT_EQ(tuple_text({"it's"}), R"(("it's",))");
  EXPECT_EQ(tuple_text({R"(a"b)"}), R"(('a"b',))");
  EXPECT_EQ(tuple_text({R"(a"b'c)"}), R"(('a"b\'c',))");
  EXPECT_EQ(tuple_text({"a\\b\n\r\t\x01\x7f"}), R"(('a\\b\n\r\t\x01\x7f',))");
  EXPECT_EQ(tuple_text({"\xc3\xa9"}), "('\xc3\xa9',)");
}

TEST(OrbaxMetadata, StepFileHoldsHandlersAndConstants) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  const auto sides = orbax_format().metadata(builder.tree(), builder);
  EXPECT_EQ(
      text_of(sides[4]),
      R"({"commit_timestamp_nsecs":1700000000000000000,"custom_metadata":{"scan_layers":true},)"
      R"("init_timestamp_nsecs":1700000000000000000,"item_handlers":{"items":)"
      R"("orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"},)"
      R"("metrics":{},"performance_metrics":{}})");
  EXPECT_EQ(text_of(sides[3]), text_of(sides[5]));
}

TEST(OrbaxMetadata, HandlersOfOtherItemsAreKeptIfTheyAreNamed) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  const auto handlers = [&](const std::string& beside) {
    builder.tree().beside = parse_json(beside, "beside");
    const auto sides = orbax_format().metadata(builder.tree(), builder);
    std::vector<std::string> items;
    const Json step = parse_json(text_of(sides[4]), "step");
    for (const auto& [item, handler] : step.at("item_handlers").as_object()) items.push_back(item);
    return items;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(handlers(R"({"item_handlers":{"data":"C"}})"), (Names{"data", "items"}));
  EXPECT_EQ(handlers(R"({"item_handlers":"A"})"), Names{"items"});
  EXPECT_EQ(handlers("{}"), Names{"items"});
}

TEST(OrbaxMetadata, ATreeKeepsTheNodeTypesOfItsStructure) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {}, {}).build().tree().extras = {};
  for (const std::string types : {"", R"({"w":"a type"})"}) {
    TreeStructure structure = *structure_of(builder.leaves());
    structure.rich_types = types;
    builder.tree().structure = std::make_shared<const TreeStructure>(std::move(structure));
    const Json json = parse_json(tree_text(builder.tree()), "_METADATA");
    const Json* kept = json.find("value_metadata_tree");
    EXPECT_EQ(kept != nullptr ? kept->as_string() : "", types);
    EXPECT_EQ(kept == nullptr, types.empty());
  }
}

TEST(OrbaxMetadata, ATreeKeepsItsOwnCustomMetadataIfTheyAreNotAnObject) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {}, {}).build().tree().extras = {};
  builder.tree().custom_metadata = parse_json(R"({"hfshard":1,"theirs":3})", "custom");
  const auto kept = [&](const std::string& attributes) {
    TreeStructure structure = *structure_of(builder.leaves());
    structure.attributes = parse_json(attributes, "attributes");
    builder.tree().structure = std::make_shared<const TreeStructure>(std::move(structure));
    return dump_json(parse_json(tree_text(builder.tree()), "_METADATA").at("custom_metadata"));
  };
  EXPECT_EQ(kept(R"({"theirs":3})"), R"({"hfshard":1,"theirs":3})");
  EXPECT_EQ(kept("null"), R"({"hfshard":1,"theirs":3})");
  EXPECT_EQ(kept("7"), "7");
  EXPECT_EQ(kept("[3]"), "[3]");
}

TEST(OrbaxMetadata, AStepKeepsItsOwnCustomMetadataIfTheyAreAnObject) {
  OrbaxBuilder builder;
  builder.leaf("w", DType::u8, {}, {}).build().tree().extras = {};
  builder.tree().custom_metadata = parse_json(R"({"hfshard":1,"ours":2})", "custom");
  const auto kept = [&](const std::string& step) {
    TreeStructure structure = *structure_of(builder.leaves());
    structure.step = parse_json(step, "step");
    builder.tree().structure = std::make_shared<const TreeStructure>(std::move(structure));
    for (const SideFile& side : side_files(builder.tree(), builder)) {
      if (side.path == "_CHECKPOINT_METADATA")
        return dump_json(parse_json(text_of(side), "step").at("custom_metadata"));
    }
    return std::string("no such file");
  };
  EXPECT_EQ(kept(R"({"custom_metadata":{"theirs":3}})"), R"({"hfshard":1,"theirs":3})");
  EXPECT_EQ(kept(R"({"custom_metadata":7})"), R"({"hfshard":1,"ours":2})");
  EXPECT_EQ(kept("{}"), R"({"hfshard":1,"ours":2})");
  builder.tree().custom_metadata = 5;
  EXPECT_EQ(kept(R"({"custom_metadata":{"theirs":3}})"), "5");
}

TEST(OrbaxMetadata, HandlersOfCopiedItemsStandNextToThatOfTheTree) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  builder.tree().beside = parse_json(R"({"item_handlers":{"data":"Grain"}})", "beside");
  const auto handlers = [&] {
    const auto sides = orbax_format().metadata(builder.tree(), builder);
    for (const SideFile& side : sides) {
      if (side.path == "_CHECKPOINT_METADATA")
        return dump_json(parse_json(text_of(side), "step").at("item_handlers"));
    }
    return std::string();
  };
  const std::string both =
      R"({"data":"Grain","items":)"
      R"("orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"})";
  EXPECT_EQ(handlers(), both);
  builder.tree().structure = std::make_shared<const TreeStructure>();
  EXPECT_EQ(handlers(), both);
}

// An index in the source's own directory. Step and item are the same.
TEST(OrbaxMetadata, AnItemThatIsItsOwnStepHasOneHandlerAndNoFolder) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  builder.tree().direct = true;
  const auto sides = orbax_format().metadata(builder.tree(), builder);
  std::vector<std::string> paths;
  for (const SideFile& side : sides) paths.push_back(side.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"d/btree", "manifest.ocdbt", "_METADATA",
                                             "_CHECKPOINT_METADATA", "commit_success.txt"}));
  EXPECT_EQ(parse_json(text_of(sides[3]), "step").at("item_handlers").as_string(),
            "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler");
}

TEST(OrbaxMetadata, TheTreeIsHandedOnInPieces) {
  std::vector<Leaf> leaves(5000);
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].name = "l" + std::to_string(i);
  TreeSpec tree;
  tree.leaves = &leaves;
  std::size_t total = 0;
  std::size_t largest = 0;
  write_tree_metadata(tree, [&](std::span<const std::byte> bytes) {
    total += bytes.size();
    largest = std::max(largest, bytes.size());
  });
  EXPECT_GT(total, std::size_t{500} << 10);
  EXPECT_LT(largest, std::size_t{128} << 10);
}

TEST(OrbaxMetadata, StepIsAnInlineScalarWithOrWithoutChecksum) {
  for (const bool checksum : {true, false}) {
    OrbaxBuilder builder(1, {checksum});
    builder.leaf("params.params.w", DType::f32, {4}, {4});
    builder.leaf("zz", DType::f32, {4}, {4}).build();
    builder.tree().step = 0x0102030405;
    TempDir dir;
    builder.write(dir / "0");
    std::string value;
    ocdbt::Database(dir / "0/items").walk([&](const ocdbt::Entry& entry) {
      if (entry.key == "step/c") value = entry.inline_bytes;
    });
    ASSERT_EQ(value.size(), checksum ? 12U : 8U);
    EXPECT_EQ(load_le<std::uint64_t>(as_bytes(value).data()), 0x0102030405U);
    if (checksum) {
      EXPECT_EQ(load_le<std::uint32_t>(as_bytes(value).data() + 8),
                crc32c(as_bytes(value).first(8)));
    }
  }
}

// The leaves come in another order than their keys, which are written in byte order.
TEST(OrbaxMetadata, TheEmptyNameIsAPrefixOfNamesBeforeTheSlash) {
  OrbaxBuilder builder;
  for (const char* name : {"", "-a", "-x", "-y"}) builder.leaf(name, DType::u8, {}, {});
  builder.build().tree().extras = {};
  const std::vector<Leaf>& sorted = builder.leaves();
  const std::vector<Leaf> leaves{sorted[1], sorted[3], sorted[0], sorted[2]};
  builder.tree().leaves = &leaves;
  builder.tree().structure = structure_of(leaves);
  const TempDir dir;
  builder.write(dir / "0");
  std::vector<std::string> keys;
  ocdbt::Database(dir / "0/items").walk([&](const ocdbt::Entry& entry) {
    keys.emplace_back(entry.key);
  });
  EXPECT_EQ(keys, (std::vector<std::string>{"-a/c", "-a/zarr.json", "-x/c", "-x/zarr.json", "-y/c",
                                            "-y/zarr.json", "c", "zarr.json"}));
}

TEST(OrbaxMetadata, ArraysWithinAnotherOneAreBetweenItsKeys) {
  OrbaxBuilder builder;
  for (const char* name : {"a", "a/b", "a/d", "a/zz"}) builder.leaf(name, DType::u8, {}, {});
  builder.build().tree().extras = {};
  builder.tree().structure = structure_of(builder.leaves());
  const TempDir dir;
  builder.write(dir / "0");
  std::vector<std::string> keys;
  ocdbt::Database(dir / "0/items").walk([&](const ocdbt::Entry& entry) {
    keys.emplace_back(entry.key);
  });
  EXPECT_EQ(keys,
            (std::vector<std::string>{"a/b/c", "a/b/zarr.json", "a/c", "a/d/c", "a/d/zarr.json",
                                      "a/zarr.json", "a/zz/c", "a/zz/zarr.json"}));
}

// The keys of an array are between those of another one whose name it begins.
TEST(OrbaxMetadata, AnArraysNameBeginsWithThoseOfAtMost64) {
  const auto write = [](int arrays) {
    OrbaxBuilder builder;
    std::string name;
    for (int i = 0; i < arrays; ++i) {
      name += i == 0 ? "a" : "/a";
      builder.leaf(name, DType::u8, {}, {});
    }
    builder.build().tree().extras = {};
    builder.tree().structure = structure_of(builder.leaves());
    for (const SideFile& side : side_files(builder.tree(), builder)) text_of(side);
  };
  write(65);
  const Error error = catch_error([&] { write(66); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor().size(), 131U) << "the innermost";
}

TEST(OrbaxMetadata, AnArrayCannotHaveTheKeysOfAnothersChunks) {
  OrbaxBuilder builder;
  builder.leaf("a", DType::u8, {4}, {4});
  builder.leaf("a/c", DType::u8, {4}, {4}).build().tree().extras = {};
  builder.tree().structure = structure_of(builder.leaves());
  const Error error = catch_error([&] {
    for (const SideFile& side : side_files(builder.tree(), builder)) text_of(side);
  });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "a/c");
  EXPECT_NE(error.sentence().find("\"a/c/0\""), std::string::npos) << error.sentence();
}

TEST(OrbaxMetadata, PlanIdDecidesTheUuid) {
  OrbaxBuilder builder;
  builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
  const std::string a = text_of(side_files(builder.tree(), builder)[1]);
  builder.tree().plan_id = std::string(64, 'b');
  const std::string b = text_of(side_files(builder.tree(), builder)[1]);
  EXPECT_NE(a.substr(14, 16), b.substr(14, 16));
  EXPECT_EQ(a.substr(30, a.size() - 34), b.substr(30, b.size() - 34));
}

TEST(OrbaxTree, ManyEntriesAreParsedOneByOne) {
  std::vector<Leaf> leaves(20000);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].name = "params.layer_" + std::to_string(i) + "." + "it's \"odd\" {[,:\\";
  }
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.extras = {"step", "opt_state"};
  const Tree parsed = parse_tree(tree_text(tree), "_METADATA");
  EXPECT_EQ(parsed.arrays.size(), leaves.size() + 1);
  EXPECT_TRUE(std::ranges::is_sorted(parsed.arrays));
  EXPECT_TRUE(parsed.custom_metadata.is_null());
  EXPECT_TRUE(std::ranges::binary_search(parsed.arrays, leaves[77].name));
}

TEST(OrbaxTree, RealOrbaxEntriesAreRead) {
  const Tree tree = parse_tree(
      R"~( { "tree_metadata" : { "('a',)": {"key_metadata": [{"key": "a", "key_type": 2}],
          "value_metadata": {"value_type": "jax.Array", "skip_deserialize": false,
           "write_shape": [8]}} ,
          "('b', 0)": {"key_metadata": [{"key": "b", "key_type": 2}, {"key": "0", "key_type": 1}],
          "value_metadata": {"value_type": "scalar", "skip_deserialize": false}},
          "('t',)": {"key_metadata": [{"key": "t", "key_type": 2}],
          "value_metadata": {"value_type": "string", "skip_deserialize": false}},
          "('e',)": {"key_metadata": [{"key": "e", "key_type": 2}],
          "value_metadata": {"value_type": "None", "skip_deserialize": true}}},
          "use_ocdbt": null, "use_zarr3": true, "value_metadata_tree": "{\"}\"}" }  )~",
      "f");
  EXPECT_EQ(tree.arrays, (std::vector<std::string>{"a", "b.0"}));
  EXPECT_EQ(tree.entries[1].keys(), (std::vector<TreeKey>{{"b", false}, {"0", true}}));
  EXPECT_EQ(tree.entries[2].kind, TreeEntry::Kind::text);
  EXPECT_EQ(tree.entries[3].type, "None");
  EXPECT_EQ(tree.rich_types, "{\"}\"}");
}

TEST(OrbaxTree, TextsThatBothJsonDoorsRefuseAreRefusedInEveryMember) {
  const auto around = [](const std::string& custom, const std::string& more) {
    return R"({"custom_metadata":)" + custom + R"(,"tree_metadata":{"x":{"key_metadata":[],)" +
           R"("value_metadata":{"value_type":"scalar","skip_deserialize":false,"more":)" + more +
           R"(}}},"use_zarr3":true})";
  };
  EXPECT_EQ(parse_tree(around("{}", "{}"), "f").arrays.size(), 1U);
  for (const auto& [what, text] : json_rejections()) {
    for (const std::string& all : {around(text, "{}"), around("{}", text)}) {
      EXPECT_EQ(catch_error([&] { parse_tree(all, "f"); }).code(), ErrorCode::corrupt) << what;
    }
  }
}

TEST(OrbaxTree, WhatHoldsTheArraysIsAsOrbaxTakesIt) {
  const auto with = [](const std::string& members) {
    return parse_tree(R"({"tree_metadata":{})" + members + "}", "f");
  };
  const Tree none = with("");
  EXPECT_FALSE(none.use_ocdbt.has_value());
  EXPECT_FALSE(none.use_zarr3);
  EXPECT_TRUE(none.may_lack);
  EXPECT_FALSE(with(R"(,"use_ocdbt":null)").use_ocdbt.has_value());
  EXPECT_EQ(with(R"(,"use_ocdbt":false)").use_ocdbt, false);
  EXPECT_EQ(with(R"(,"use_ocdbt":true)").use_ocdbt, true);
  EXPECT_TRUE(with(R"(,"use_zarr3":true)").use_zarr3);
  EXPECT_FALSE(with(R"(,"store_array_data_equal_to_fill_value":true)").may_lack);
  EXPECT_TRUE(with(R"(,"store_array_data_equal_to_fill_value":false)").may_lack);
}

TEST(OrbaxTree, NumbersThatOnlyPythonWrites) {
  const std::string text =
      R"({"loss":NaN,"all":[Infinity,-Infinity,1],"NaN\"":"a \"NaN\" Infinity"})";
  const Json json = parse_metadata(text, "f");
  EXPECT_EQ(json.at("loss"), Json(NotFinite::nan));
  EXPECT_EQ(json.at("all").as_array()[1], Json(NotFinite::minus_infinity));
  EXPECT_EQ(json.at("NaN\"").as_string(), "a \"NaN\" Infinity");
  const Tree tree = parse_tree(R"({"tree_metadata":{},"custom_metadata":)" + text + "}", "f");
  EXPECT_EQ(tree.custom_metadata, json);
  EXPECT_EQ(catch_error([&] { parse_metadata(R"({"a":NaNs})", "f"); }).code(), ErrorCode::corrupt);
}

TEST(OrbaxTree, DamageIsRefusedWithTheFile) {
  const std::string entry = R"("x":{"key_metadata":[{"key":"a","key_type":2}],)"
                            R"("value_metadata":{"value_type":"scalar","skip_deserialize":false}})";
  const auto whole = [](const std::string& entries, const std::string& rest) {
    return R"({"tree_metadata":{)" + entries + "}" + rest + "}";
  };
  const std::string good = whole(entry, R"(,"use_zarr3":true)");
  EXPECT_EQ(parse_tree(good, "f").arrays.size(), 1U);
  const auto u = ErrorCode::unsupported;
  const auto c = ErrorCode::corrupt;
  const auto swap = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    return out.replace(out.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, ErrorCode>> cases{
      {"", c},
      {"[]", c},
      {"{}", c},
      {good + "x", c},
      {whole(entry, R"(,"use_zarr3":7)"), c},
      {whole(entry, R"(,"use_ocdbt":"no")"), c},
      {whole(entry, R"(,"store_array_data_equal_to_fill_value":[])"), c},
      {whole(entry, R"(,"use_zarr3":true,"use_zarr3":true)"), c},
      {whole(entry + "," + entry, R"(,"use_zarr3":true)"), c},
      {whole(entry + ",", R"(,"use_zarr3":true)"), c},
      {whole(entry + entry, R"(,"use_zarr3":true)"), c},
      {R"({"use_zarr3":true})", c},
      {swap(R"("scalar")", R"("NewThing")"), u},
      {swap(R"("key_type":2)", R"("key_type":3)"), u},
      {swap(R"("key_type":2)", R"("key_type":-1)"), c},
      {swap(R"(,"skip_deserialize":false)", ""), c},
      {swap(R"("x":)", R"(7:)"), c},
      {swap(R"("x":)", "\"x\xff\":"), c},
      {swap(R"("x":)", R"("x\q":)"), c},
      {good + good, c},
      {good + "}", c},
      {swap("}]", "]}"), c},
  };
  for (const auto& [text, code] : cases) {
    const Error e = catch_error([&] { parse_tree(text, "f/_METADATA"); });
    EXPECT_EQ(e.code(), code) << text;
    EXPECT_EQ(e.file(), "f/_METADATA");
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(catch_error([&] { parse_tree(good.substr(0, size), "f"); }).code(), c) << size;
  }
}

}  // namespace
}  // namespace hfshard::format::orbax
