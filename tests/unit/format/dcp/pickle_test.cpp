#include "format/pickle.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/dcp/metadata.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/formats.h"
#include "format/pickle_opcodes.h"
#include "format/tensor_pickle.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "support/temp_dir.h"
#include "support/test_data.h"

namespace hfshard::format::dcp {
namespace {

using Kind = Pickle::Kind;
using std::string_literals::operator""s;

Pickle parse(std::string stream, Persistent persistent = Persistent::refused) {
  return {std::move(stream), "memory", persistent};
}

ErrorCode code_of(const std::string& stream) {
  return catch_error([&] { parse(stream); }).code();
}

std::string golden(const std::string& name) {
  return read_file(test_data("golden/dcp/") + name + ".metadata");
}

TEST(DcpPickle, ValuesAreWhatTheStreamSays) {
  // {"a": [1, -2, 70000, None], "b": (True, b"xy")}, with the opcodes of protocols 2 and 4.
  const Pickle two = parse(
      "\x80\x02}q\0(X\1\0\0\0a]q\1(K\1J\xfe\xff\xff\xffJp\x11\1\0Ne"
      "X\1\0\0\0b\x88"
      "C\2xy\x86u."s);
  const auto list = two.find(two.root(), "a");
  ASSERT_TRUE(list && two.is(*list, Kind::list));
  std::vector<std::int64_t> numbers;
  two.for_each_run(*list, [&](std::span<const Pickle::Id> run) {
    for (const Pickle::Id each : run)
      numbers.push_back(two.is(each, Kind::integer) ? two.integer(each) : 99);
  });
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -2, 70000, 99}));
  const auto pair = two.find(two.root(), "b");
  ASSERT_TRUE(pair && two.is(*pair, Kind::tuple));
  EXPECT_TRUE(two.boolean(two.tuple(*pair)[0]));
  EXPECT_EQ(two.text(two.tuple(*pair)[1]), "xy");
  const Pickle four = parse("\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\2os\x94\x8c\4exit\x94\x93."s);
  EXPECT_TRUE(four.is_global(four.root(), "os", "exit"));
  const Pickle longest = parse("\x8a\x08\xfe\xff\xff\xff\xff\xff\xff\x7f."s);
  EXPECT_EQ(longest.integer(longest.root()), INT64_MAX - 1);
  for (const char* discarded : {"K\1(NN1.", "K\1(0."})  // POP_MARK, and POP of a mark
    EXPECT_EQ(parse(discarded).integer(parse(discarded).root()), 1);
}

TEST(DcpPickle, TheLastOfEqualKeysCounts) {
  const Pickle twice = parse("\x80\x02}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."s);
  EXPECT_EQ(twice.integer(twice.find(twice.root(), "a").value()), 2);
}

TEST(DcpPickle, NothingIsCalled) {
  const Pickle call = parse(
      "\x80\x02"
      "cos\nsystem\nX\4\0\0\0true\x85R."s);
  EXPECT_EQ(call.global_name(call.callee(call.root())), "os.system");
  // An OrderedDict with arguments would be read as an empty one.
  const Pickle ordered = parse("ccollections\nOrderedDict\n]\x85R.");
  EXPECT_EQ(ordered.kind(ordered.root()), Kind::call);
}

// Every byte that isn't an opcode of checkpoints.
TEST(DcpPickle, OtherOpcodesAreRefusedWithTheirPlace) {
  const std::string known("(.012GJKMNQRBCUX]abcehjqrstu)}");
  int refused = 0;
  for (int op = 0; op < 256; ++op) {
    const bool is_known = (op < 0x80 && known.find(static_cast<char>(op)) != std::string::npos) ||
                          (op >= 0x80 && op <= 0x95 && op != 0x82 && op != 0x83 && op != 0x84);
    const std::string stream = std::string("\x80\x02N", 3) + static_cast<char>(op);
    if (is_known && op != 'Q') continue;
    const Error error = catch_error([&] { parse(stream); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << op;
    EXPECT_EQ(error.range()->begin, 3U) << op;
    EXPECT_NE(error.sentence().find("at byte 3"), std::string::npos);
    EXPECT_EQ(error.file(), "memory");
    ++refused;
  }
  // Among the known ones BINPERSID is refused too, and three of the high ones are unknown.
  EXPECT_EQ(refused, 256 - (static_cast<int>(known.size()) - 1) - (22 - 3));
  EXPECT_EQ(code_of("\x80\x06N."), ErrorCode::unsupported);
  EXPECT_EQ(parse("\x80\x05N.").kind(0), Kind::none) << "the newest protocol";
  EXPECT_EQ(parse("\x80\x02NQ.", Persistent::allowed).kind(1), Kind::persistent);
}

TEST(DcpPickle, StreamsThatMakeNoSenseAreCorrupt) {
  for (const std::string& stream : {""s,
                                    "\x80"s,
                                    "\x80\x02"s,
                                    "\x80\x02."s,
                                    "\x80\x02(."s,
                                    "\x80\x02(N."s,
                                    "X\xff\xff\xff\xffshort."s,
                                    "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                    "\x8a\x09"
                                    "123."s,
                                    "t."s,
                                    "N\x86."s,
                                    "(N\x86."s,
                                    "Na."s,
                                    "]Ns."s,
                                    "}(Nu."s,
                                    "NNb."s,
                                    "h\0."s,
                                    "j\xff\xff\xff\xff."s,
                                    "Nr\xff\xff\xff\xff."s,
                                    "NNR\x93."s,
                                    "\x95\xff\xff\xff\xff\xff\xff\xff\x7f."s,
                                    "cos\nsystem"s,
                                    "1."s,
                                    "0."s,
                                    "e."s,
                                    "N(R."s,
                                    "\x8b\xff\xff\xff\xff."s,
                                    "\x8a\xff"
                                    "1."s,
                                    "B\xff\xff\xff\xff."s}) {
    EXPECT_EQ(code_of(stream), ErrorCode::corrupt) << ::testing::PrintToString(stream);
  }
}

// Streams with endless claims or nesting end soon, without recursion, and with memory bounded by
// their size.
TEST(DcpPickle, HostileStreamsEndSoon) {
  const std::size_t many = std::size_t{1} << 20;
  std::string nested(many, ']');
  nested += std::string(many - 1, 'a') + '.';
  parse(nested);  // in quadratic time, for hours
  EXPECT_EQ(code_of(std::string(many + 1, '(')), ErrorCode::limit);
  EXPECT_EQ(code_of("N" + std::string(std::size_t{1} << 24, '2')), ErrorCode::limit);
  std::string tuples = "N";
  for (std::size_t i = 0; i < many; ++i) tuples += '\x85';
  parse(tuples + '.');
  // A list that contains itself.
  const Pickle loop = parse("]q\0h\0a."s);
  loop.for_each_run(loop.root(),
                    [&](std::span<const Pickle::Id> run) { EXPECT_EQ(run[0], loop.root()); });
}

// A few shared values claim millions of chunks.
TEST(DcpPickle, SharedValuesCannotClaimWithoutEnd) {
  const TempDir dir;
  std::string out;
  PickleWriter write(out);
  const auto object = [&](const char* name) {
    write.global("torch.distributed.checkpoint.metadata", name).op(Op::empty_tuple).op(Op::new_obj);
  };
  write.begin();
  object("Metadata");
  write.op(Op::empty_dict).op(Op::mark).text("state_dict_metadata").op(Op::empty_dict).op(Op::mark);
  for (int i = 0; i < 3000; ++i) {
    write.text("t" + std::to_string(i));
    if (i > 0) {
      write.get(1);
      continue;
    }
    object("TensorStorageMetadata");
    write.op(Op::empty_dict).op(Op::mark).text("properties");
    object("TensorProperties");
    write.op(Op::mark).global("torch", "float32").op(Op::none).op(Op::tuple).op(Op::build);
    write.text("size").integers({1}).text("chunks").op(Op::empty_list).op(Op::mark);
    for (int k = 0; k < 3000; ++k) {
      if (k > 0) {
        write.get(0);
        continue;
      }
      object("ChunkStorageMetadata");
      write.op(Op::empty_dict).op(Op::mark).text("offsets").integers({0}).text("sizes");
      write.integers({1}).op(Op::set_items).op(Op::build).put(0);
    }
    write.op(Op::appends).op(Op::set_items).op(Op::build).put(1);
  }
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::set_items).op(Op::build);
  write.op(Op::stop);
  write_text(dir / ".metadata", out);
  const Error error = catch_error([&] { read_metadata(dir / ".metadata"); });
  EXPECT_EQ(error.code(), ErrorCode::limit) << error.format();
}

TEST(DcpPickle, MetadataOfTorchIsRead) {
  const TempDir dir;
  const Metadata nested = read_metadata(test_data("golden/dcp/nested.metadata"));
  std::vector<std::string> names;
  for (const StoredTensor& tensor : nested.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"model.layers.0.w", "model.layers.1.b", "model.layers.1.w",
                                      "model.name.with.dots", "\xc3\xbc"}));
  EXPECT_EQ(nested.tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(nested.objects.size(), 6U);
  const Metadata fsdp = read_metadata(test_data("golden/dcp/fsdp.metadata"));
  EXPECT_EQ(fsdp.files.size(), 4U);
  const auto weight = std::ranges::find(fsdp.tensors, "model.1.weight", &StoredTensor::name);
  ASSERT_NE(weight, fsdp.tensors.end());
  EXPECT_EQ(weight->boxes.size(), 4U);
  EXPECT_EQ(weight->boxes[3].extent, (Shape{1, 8}));
}

// Returns the metadata for the planner_data of one key.
std::string planner_pickle(const std::function<void(PickleWriter&)>& path) {
  std::string out;
  PickleWriter write(out);
  write.begin().global("torch.distributed.checkpoint.metadata", "Metadata").op(Op::empty_tuple);
  write.op(Op::new_obj).op(Op::empty_dict).op(Op::mark).text("state_dict_metadata");
  write.op(Op::empty_dict).op(Op::mark).text("a.0");
  write.global("torch.distributed.checkpoint.metadata", "TensorStorageMetadata");
  write.op(Op::empty_tuple).op(Op::new_obj).op(Op::empty_dict).op(Op::mark).text("properties");
  write.global("torch.distributed.checkpoint.metadata", "TensorProperties").op(Op::empty_tuple);
  write.op(Op::new_obj).op(Op::mark).global("torch", "float32").op(Op::none).op(Op::tuple);
  write.op(Op::build).text("size").integers({0}).text("chunks").op(Op::empty_list);
  write.op(Op::set_items).op(Op::build).op(Op::set_items);
  write.text("planner_data").op(Op::empty_dict).op(Op::mark).text("a.0");
  path(write);
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::set_items).op(Op::build);
  write.op(Op::stop);
  return out;
}

Metadata with_planner(const std::function<void(PickleWriter&)>& path) {
  return read_metadata(planner_pickle(path), "memory");
}

TEST(DcpPickle, PlannerDataKeepTextsAndIndices) {
  const auto two = [](PickleWriter& write) { write.text("a").integer(0).op(Op::tuple2); };
  const Metadata found = with_planner(two);
  EXPECT_FALSE(found.other_planner);
  EXPECT_EQ(found.nested, (std::vector<NestedName>{{"a.0", R"(["a",0])"}}));
  const Metadata own = with_planner([](auto& write) { write.text("a.0").op(Op::tuple1); });
  EXPECT_TRUE(own.nested.empty() && !own.other_planner) << "a key of its own";
  const Metadata renamed = with_planner([](auto& write) { write.text("b").op(Op::tuple1); });
  EXPECT_EQ(renamed.nested, (std::vector<NestedName>{{"a.0", R"(["b"])"}}));
  const Metadata below =
      with_planner([](auto& write) { write.text("a.0").text("x").op(Op::tuple2); });
  EXPECT_EQ(below.nested, (std::vector<NestedName>{{"a.0", R"(["a.0","x"])"}}));
  std::string odd = planner_pickle(two);
  odd.replace(odd.find("float32"), 7, "float3x");
  EXPECT_EQ(read_metadata(odd, "memory", {"a.0"}).nested, found.nested)
      << "a tensor that is left out has a place in its list";
  const Metadata nested = read_metadata(test_data("golden/dcp/nested.metadata"));
  EXPECT_EQ(nested_keys(nested.nested, "model.layers.1.b"), R"(["model","layers",1,"b"])");
  EXPECT_EQ(nested_keys(nested.nested, "many.lr"), R"(["many","lr"])");
  EXPECT_EQ(nested_keys(nested.nested, "step"), "");
  EXPECT_EQ(nested_keys(nested.nested, "many"), "") << "only what the next name begins with";
}

TEST(DcpPickle, APathInPlannerDataHasAtMost64KeysAndIsNoLargerThanItsPickleAllows) {
  const auto path = [](int count, const std::string& key) {
    return with_planner([&](PickleWriter& write) {
      write.op(Op::mark).text(key).put(0);
      for (int i = 1; i < count; ++i) write.get(0);
      write.op(Op::tuple);
    });
  };
  EXPECT_EQ(path(64, "a").nested.size(), 1U);
  EXPECT_TRUE(path(65, "a").other_planner);
  const std::string large(1000, 'x');
  EXPECT_EQ(path(8, large).nested.size(), 1U);
  const Error error = catch_error([&] { path(64, large); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.tensor(), "a.0");
}

TEST(DcpPickle, PlannerDataOfOtherPlannersAreNotKept) {
  const std::vector<std::function<void(PickleWriter&)>> others = {
      [](PickleWriter& write) { write.text("a"); },
      [](PickleWriter& write) { write.op(Op::empty_tuple); },
      [](PickleWriter& write) { write.text("a").op(Op::none).op(Op::tuple2); },
      [](PickleWriter& write) { write.text("a\xff").op(Op::tuple1); },
      [](PickleWriter& write) {  // more keys than any state has
        write.op(Op::mark);
        for (int i = 0; i < 65; ++i) write.integer(1);
        write.op(Op::tuple);
      },
      [](PickleWriter& write) {  // a path, and a key without one
        write.text("a").integer(0).op(Op::tuple2).text("b").text("c");
      },
  };
  for (const auto& path : others) {
    const Metadata found = with_planner(path);
    EXPECT_TRUE(found.other_planner && found.nested.empty());
  }
  const TempDir dir;
  write_text(dir / ".metadata", planner_pickle(others.front()));
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(opened->catalog().notes,
            (std::vector<std::string>{
                "planner_data comes from a custom planner; reshard can't keep it"}));
}

TEST(DcpPickle, PathsThatLeaveTheDirectoryAreRefused) {
  const TempDir dir;
  const std::string name = "__0_0.distcp";
  for (const std::string& path : {"../0.distcp_"s, "/__0.distcp_"s, "a/../b.dist_"s,
                                  "__0\0.distcp_"s, "a/b/..distc_"s, "a/b/c/d/e/.."s}) {
    std::string bad = golden("nested");
    ASSERT_EQ(path.size(), name.size());
    bad.replace(bad.find(name), name.size(), path);
    write_text(dir / ".metadata", bad);
    if (path == "a/b/..distc_") {  // a valid name
      EXPECT_EQ(read_metadata(dir / ".metadata").files.front(), path);
      continue;
    }
    const Error error = catch_error([&] { read_metadata(dir / ".metadata"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << path;
    EXPECT_FALSE(error.tensor().empty());
    EXPECT_NE(error.sentence().find("directory"), std::string::npos);
  }
}

// Flips bits of torch's metadata and truncates them. They are read or refused with an error.
TEST(DcpPickle, DamagedMetadataAreReadOrRefused) {
  const TempDir dir;
  std::mt19937 random(61);
  for (const char* name : {"nested", "objects", "optimizer", "fsdp"}) {
    const std::string good = golden(name);
    for (int i = 0; i < cases(1500); ++i) {
      std::string bad = good;
      for (unsigned k = 0; k <= random() % 3; ++k)
        bad[random() % bad.size()] = static_cast<char>(random());
      if (i % 5 == 0) bad.resize(random() % bad.size());
      if (i % 7 == 0) bad.insert(random() % bad.size(), good.substr(random() % good.size(), 9));
      write_text(dir / ".metadata", bad);
      try {
        read_metadata(dir / ".metadata");
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << error.format();
        EXPECT_FALSE(error.file().empty()) << error.format();
      }
    }
  }
}

TEST(DcpPickle, ATensorIsWhatItsPickleSays) {
  for (const DType dtype : {DType::bf16, DType::f8_e4m3, DType::u64, DType::boolean}) {
    for (const Shape& shape :
         {Shape{}, Shape{0, 4}, Shape{3}, Shape{300, 70000}, Shape{2, 3, 4, 5}}) {
      const TensorPickle found =
          read_tensor_pickle(parse(tensor_pickle(dtype, shape), Persistent::allowed));
      EXPECT_EQ(found.dtype, dtype);
      EXPECT_EQ(found.shape, shape);
      EXPECT_EQ(found.strides, shape.strides());
      EXPECT_EQ(found.record, "data/0");
      EXPECT_EQ(found.storage_bytes, shape.numel() * size_bits(dtype) / 8);
    }
  }
  for (const std::uint64_t size : {1ULL << 31, 1ULL << 33}) {
    EXPECT_EQ(
        read_tensor_pickle(parse(tensor_pickle(DType::u8, {size}), Persistent::allowed)).shape,
        Shape{size});
  }
}

// torch wrote it before 0.4.
TEST(DcpPickle, ATensorOfTheOldestFormIsRead) {
  std::string old = tensor_pickle(DType::bf16, {2, 3});
  const std::string name = "_rebuild_tensor_v2";
  old.replace(old.find(name), name.size(), "_rebuild_tensor");
  const TensorPickle found = read_tensor_pickle(parse(old, Persistent::allowed));
  EXPECT_EQ(found.dtype, DType::bf16);
  EXPECT_EQ(found.shape, (Shape{2, 3}));
}

TEST(DcpPickle, WhatIsNoPlainTensorIsRefused) {
  const std::string good = tensor_pickle(DType::bf16, {2, 3});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    return catch_error([&] { read_tensor_pickle(parse(bad, Persistent::allowed)); }).code();
  };
  EXPECT_EQ(with("_rebuild_tensor_v2", "_rebuild_qtensor"), ErrorCode::unsupported);
  EXPECT_EQ(with("BFloat16Storage", "QInt8Storage"), ErrorCode::unsupported);
  EXPECT_EQ(with("torch\nBFloat16Storage", "xorch\nBFloat16Storage"), ErrorCode::unsupported);
  EXPECT_EQ(with("storage", "st0rage"), ErrorCode::corrupt);
  // Strides that reach beyond the storage: 3 becomes 4.
  EXPECT_EQ(with("K\x03K\x01\x86\x89", "K\x04K\x01\x86\x89"), ErrorCode::corrupt);
  // A seventh argument: the flags of a conjugate view. Without flags, it changes nothing.
  const std::string end = ")Rt";
  EXPECT_EQ(with(end + "R.", ")R}X\4\0\0\0conj\x88stR."s), ErrorCode::unsupported);
  std::string plain = good;
  plain.replace(plain.find(end), end.size(), ")R}t");
  EXPECT_EQ(read_tensor_pickle(parse(plain, Persistent::allowed)).shape, (Shape{2, 3}));
}

TEST(DcpPickle, ATensorThatCannotBeSaysWhy) {
  const std::string good = tensor_pickle(DType::f32, {2, 3});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    EXPECT_NE(out.find(from), std::string::npos) << from;
    return out.replace(out.find(from), from.size(), to);
  };
  const auto sentence = [&](const std::string& stream) {
    return catch_error([&] { read_tensor_pickle(parse(stream, Persistent::allowed)); }).sentence();
  };
  const std::string size = "K\x02K\x03\x86";
  EXPECT_EQ(sentence(changed(size, "K\x02J\xff\xff\xff\xff\x86")), "a size that isn't a size");
  EXPECT_EQ(sentence(changed(size, "K\x02\x85")), "a tensor with strides of another rank");
  EXPECT_EQ(sentence(changed("torch\nFloatStorage", "torch.storage\nUntypedStorage")),
            "a tensor without a dtype");
  const std::string large = "\x8a\x08\0\0\0\0\0\0\0\x40"s;  // 2^62
  EXPECT_EQ(sentence(changed("K\x06", large)), "a storage of more than 2^64 bytes");
  EXPECT_EQ(sentence(changed(size + "K\x03K\x01", large + "K\x03\x86" + large + "K\x01")),
            "a tensor of 4611686018427387904x3 reaches beyond its storage of 24 bytes");
  const std::size_t storage = good.find("((") + 1;
  EXPECT_EQ(sentence(good.substr(0, storage) + "N" + good.substr(good.find('Q'))),
            "a tensor without a storage");
  EXPECT_EQ(sentence("\x80\x02"
                     "ctorch._utils\n_rebuild_parameter\n]" +
                     good.substr(2, good.size() - 3) + "aR."),
            "a tensor is made of too few arguments");
  const std::string torch_size = changed(size, "ctorch\nSize\n" + size + "\x85R");
  EXPECT_EQ(read_tensor_pickle(parse(torch_size, Persistent::allowed)).shape, (Shape{2, 3}));
}

// Before torch 0.4, a sixth part says whether a storage is a view.
TEST(DcpPickle, AStorageOfFivePartsIsNoView) {
  const auto is_view = [](const std::string& sixth) {
    const Pickle made = parse(
        "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
        "0X\3\0\0\0cpuK\6"s +
            sixth + "tQ\x85.",
        Persistent::allowed);
    return read_storage_pickle(made, made.tuple(made.root())[0]).is_view;
  };
  EXPECT_FALSE(is_view(""));
  EXPECT_FALSE(is_view("N"));
  EXPECT_TRUE(is_view("K\1"));
}

// torch.nn.Parameter and other classes have another function around the one of their values.
TEST(DcpPickle, ATensorOfAClassIsThatOfItsValuesIfTheClassIsPlain) {
  const std::string good = tensor_pickle(DType::bf16, {2, 3});
  const auto of_class = [&](const std::string& name, bool with_state = true) {
    std::string out = good;
    out.replace(0, 2,
                "\x80\x02"
                "ctorch._tensor\n_rebuild_from_type_v2\n(");
    const std::string function = "ctorch._utils\n_rebuild_tensor_v2\n";
    const std::size_t end = out.find(function) + function.size();
    out.insert(end, name);
    return out.replace(out.size() - 2, 2, with_state ? "}tR." : "tR.");
  };
  for (const std::string& name : {"ctorch\nTensor\n"s, "ctorch.nn.parameter\nParameter\n"s,
                                  "ctorch.nn.parameter\nBuffer\n"s}) {
    const TensorPickle found = read_tensor_pickle(parse(of_class(name), Persistent::allowed));
    EXPECT_EQ(found.shape, (Shape{2, 3})) << name;
    EXPECT_EQ(found.dtype, DType::bf16) << name;
  }
  const auto refusal = [&](const std::string& stream) {
    return catch_error([&] { read_tensor_pickle(parse(stream, Persistent::allowed)); });
  };
  const Error other = refusal(of_class("cmy\nTensor\n"));
  EXPECT_EQ(other.code(), ErrorCode::unsupported);
  EXPECT_NE(other.sentence().find("my.Tensor"), std::string::npos) << other.sentence();
  EXPECT_EQ(refusal(of_class("ctorch\nTensor\n", false)).code(), ErrorCode::corrupt);
}

// torch.nn.Parameter is made of a tensor. A module can wrap it again, up to four times.
TEST(DcpPickle, AParameterIsTheTensorInIt) {
  const std::string good = tensor_pickle(DType::bf16, {2, 3});
  const auto wrapped = [&](int times, const std::string& name) {
    std::string front = "\x80\x02";
    std::string end;
    for (int i = 0; i < times; ++i) {
      front += "ctorch._utils\n" + name + "\n";
      end += "\x85R";
    }
    return front + good.substr(2, good.size() - 3) + end + ".";
  };
  for (const char* name : {"_rebuild_parameter", "_rebuild_parameter_with_state"}) {
    EXPECT_EQ(read_tensor_pickle(parse(wrapped(1, name), Persistent::allowed)).shape,
              (Shape{2, 3}));
    EXPECT_EQ(read_tensor_pickle(parse(wrapped(4, name), Persistent::allowed)).shape,
              (Shape{2, 3}));
    EXPECT_EQ(catch_error([&] {
                read_tensor_pickle(parse(wrapped(5, name), Persistent::allowed));
              }).code(),
              ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace hfshard::format::dcp
