#include "format/torch/dtensor.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/pickle_writer.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using std::string_literals::operator""s;
using Writer = dcp::PickleWriter;
using Write = std::function<void(Writer&)>;

// Writes an object with a state.
void object(Writer& write, const char* module, const char* name, const Write& state) {
  write.global(module, name).op(Op::empty_tuple).op(Op::new_obj);
  write.op(Op::empty_dict).op(Op::mark);
  state(write);
  write.op(Op::set_items).op(Op::build);
}

void mesh_object(Writer& write, const Write& state) {
  object(write, "torch.distributed.device_mesh", "DeviceMesh", state);
}

// A DTensor of 4x3 with placements {replica, shard of dim 0}.
std::string dtensor_stream(const Write& mesh) {
  std::string stream;
  Writer write(stream);
  write.begin().global("torch._tensor", "_rebuild_from_type_v2").op(Op::mark);
  write.global("torch._utils", "_rebuild_wrapper_subclass").op(Op::none);
  write.global("torch.distributed.tensor", "DTensor").op(Op::none).integers({4, 3}).op(Op::tuple3);
  write.op(Op::empty_dict).op(Op::mark).text("_local_tensor").integer(0).text("_spec");
  object(write, "torch.distributed.tensor._dtensor_spec", "DTensorSpec", [&](Writer& spec) {
    spec.text("mesh");
    mesh(spec);
    spec.text("placements");
    object(spec, "torch.distributed.tensor.placement_types", "Replicate", [](Writer&) {});
    object(spec, "torch.distributed.tensor.placement_types", "Shard",
           [](Writer& shard) { shard.text("dim").integer(0); });
    spec.op(Op::tuple2);
  });
  write.op(Op::set_items).op(Op::tuple).op(Op::reduce).op(Op::stop);
  return stream;
}

std::optional<DTensorPickle> found_in(const std::string& stream) {
  const Pickle pickle(stream, "memory", Persistent::allowed);
  return find_dtensor(pickle, pickle.root());
}

DTensorPickle with_mesh(const Write& mesh) { return found_in(dtensor_stream(mesh)).value(); }

// The mesh of torch 2.8 and earlier: a tensor of ranks.
DTensorPickle with_tensor(const Shape& sizes, const Shape& ranks) {
  return with_mesh([&](Writer& write) {
    mesh_object(write, [&](Writer& state) {
      state.text("mesh").global("torch._utils", "_rebuild_tensor_v2").op(Op::mark);
      state.op(Op::none).integer(0).integers(sizes).op(Op::tuple).op(Op::reduce);
      state.text("_flatten_mesh_list").integers(ranks);
    });
  });
}

// The mesh of torch 2.13: an object for each axis.
DTensorPickle with_axes(const std::vector<Shape>& sizes, const std::vector<Shape>& steps,
                        const Shape& ranks) {
  return with_mesh([&](Writer& write) {
    mesh_object(write, [&](Writer& state) {
      state.text("_layout");
      object(state, "torch.distributed._mesh_layout", "_MeshLayout", [&](Writer& layout) {
        layout.text("axes").op(Op::mark);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          object(layout, "torch.distributed._mesh_layout", "_FlatLayout", [&](Writer& axis) {
            axis.text("shape").integers(sizes[i]).text("stride").integers(steps[i]);
          });
        }
        layout.op(Op::tuple);
      });
      state.text("_flatten_rank_map").integers(ranks);
    });
  });
}

// A mesh whose layout has this state.
std::string layout_stream(const Write& layout, const Shape& ranks) {
  return dtensor_stream([&](Writer& write) {
    mesh_object(write, [&](Writer& state) {
      state.text("_layout");
      object(state, "torch.distributed._mesh_layout", "_MeshLayout", layout);
      state.text("_flatten_rank_map").integers(ranks);
    });
  });
}

std::string layout_stream(const Shape& sizes, const Shape& steps, const Shape& ranks) {
  return layout_stream(
      [&](Writer& layout) { layout.text("shape").integers(sizes).text("stride").integers(steps); },
      ranks);
}

// The same with one object for all axes.
DTensorPickle with_layout(const Shape& sizes, const Shape& steps, const Shape& ranks) {
  return found_in(layout_stream(sizes, steps, ranks)).value();
}

// The mesh of torch 2.13 with these states of axes.
DTensorPickle with_axis_states(const std::vector<Write>& axes) {
  const auto layout = [&](Writer& write) {
    write.text("axes").op(Op::mark);
    for (const Write& axis : axes)
      object(write, "torch.distributed._mesh_layout", "_FlatLayout", axis);
    write.op(Op::tuple);
  };
  return found_in(layout_stream(layout, {})).value();
}

TEST(DTensor, ItsMeshIsReadInEachFormThatTorchWrites) {
  for (const DTensorPickle& each : {with_tensor({2, 3}, {0, 1, 2, 3, 4, 5}),
                                    with_axes({{2}, {3}}, {{3}, {1}}, {0, 1, 2, 3, 4, 5}),
                                    with_layout({2, 3}, {3, 1}, {0, 1, 2, 3, 4, 5})}) {
    EXPECT_EQ(each.mesh.sizes, (DeviceMesh{2, 3}));
    EXPECT_TRUE(each.mesh.is_in_order);
    EXPECT_EQ(each.placements, (std::vector<Placement>{kReplicated, 0}));
  }
  EXPECT_TRUE(with_axes({{1}, {2}}, {{7}, {1}}, {0, 1}).mesh.is_in_order) << "an axis of one";
  // An axis can have plain numbers.
  const DTensorPickle plain = with_axis_states(
      {[](Writer& axis) { axis.text("shape").integer(2).text("stride").integer(3); },
       [](Writer& axis) { axis.text("shape").integer(3).text("stride").integer(1); }});
  EXPECT_EQ(plain.mesh.sizes, (DeviceMesh{2, 3}));
  EXPECT_TRUE(plain.mesh.is_in_order);
}

TEST(DTensor, StepsThatDoNotFitTheAxesAreIgnored) {
  const DTensorPickle each = with_layout({2, 3}, {9, 9, 9}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(each.mesh.sizes, (DeviceMesh{2, 3}));
  EXPECT_TRUE(each.mesh.is_in_order);
}

TEST(DTensor, ALayoutWhoseAxesAreNoTupleHasSizesAndSteps) {
  const auto layout = [](Writer& write) {
    write.text("axes").op(Op::none).text("shape").integers({2, 3}).text("stride").integers({3, 1});
  };
  EXPECT_EQ(found_in(layout_stream(layout, {})).value().mesh.sizes, (DeviceMesh{2, 3}));
}

TEST(DTensor, RanksInAnotherOrderAreNoticed) {
  for (const DTensorPickle& each : {with_tensor({2, 2}, {0, 2, 1, 3}), with_tensor({1, 2}, {2, 3}),
                                    with_axes({{2}, {2}}, {{1}, {2}}, {0, 1, 2, 3}),
                                    with_axes({{2}, {2}}, {{2}, {1}}, {0, 1, 3, 2}),
                                    with_layout({2, 2}, {1, 2}, {0, 1, 2, 3})}) {
    EXPECT_EQ(each.mesh.sizes.size(), 2U);
    EXPECT_FALSE(each.mesh.is_in_order);
  }
}

TEST(DTensor, AMeshInAnUnknownFormIsAsIfNotStated) {
  const auto is_unknown = [](const DTensorPickle& each) { return each.mesh.sizes.empty(); };
  EXPECT_TRUE(is_unknown(with_mesh([](Writer& write) { write.op(Op::none); })));
  EXPECT_TRUE(is_unknown(with_mesh([](Writer& write) {
    mesh_object(write, [](Writer& state) { state.text("mesh").text("x"); });
  })));
  EXPECT_TRUE(is_unknown(with_tensor({4}, {0, 1, 2, 3}))) << "not an axis for each placement";
  EXPECT_TRUE(is_unknown(with_layout({2}, {1}, {0, 1})));
  EXPECT_TRUE(is_unknown(with_axes({{2}, {2, 2}}, {{1}, {4, 2}}, {0, 1}))) << "a flattened axis";
  EXPECT_TRUE(is_unknown(with_mesh([](Writer& write) {
    write.global("torch.distributed.device_mesh", "DeviceMesh").op(Op::empty_tuple);
    write.op(Op::new_obj);
  }))) << "an object without a state";
  EXPECT_TRUE(is_unknown(with_mesh([](Writer& write) {
    write.global("torch.distributed.device_mesh", "DeviceMesh").op(Op::empty_tuple);
    write.op(Op::new_obj).integer(INT32_MAX).op(Op::build);
  }))) << "a state that is no dict";
  EXPECT_TRUE(is_unknown(with_mesh([](Writer& write) {
    mesh_object(write, [&](Writer& state) {
      state.integers({2, 3}).put(0).op(Op::pop);
      state.text("mesh").global("torch._utils", "_rebuild_tensor_v2");
      state.op(Op::none).integer(0).op(Op::tuple2).op(Op::reduce);
      state.get(0).op(Op::tuple1).op(Op::pop);  // the size isn't the next value of the pickle
    });
  }))) << "a tensor without a size";
  const Write whole = [](Writer& axis) { axis.text("shape").integer(2).text("stride").integer(1); };
  for (const Write& other :
       {Write([](Writer& axis) { axis.text("shape").integer(2); }),
        Write([](Writer& axis) { axis.text("stride").integer(2); }), Write([](Writer& axis) {
          axis.text("shape").integer(2).text("stride").integers({2, 1});
        })})
    EXPECT_TRUE(is_unknown(with_axis_states({other, whole})));
  for (const char* size : {"N", "J\xff\xff\xff\xff"}) {
    std::string stream = layout_stream({5, 6}, {6, 1}, {});
    stream.replace(stream.find("K\5K\6"), 2, size);
    EXPECT_TRUE(is_unknown(found_in(stream).value())) << size;
  }
}

// Returns a DTensor whose pickle has `to` where torch writes `from`.
std::string changed_dtensor(const std::string& from, const std::string& to) {
  std::string out = dtensor_stream([](Writer& write) { write.op(Op::none); });
  EXPECT_NE(out.find(from), std::string::npos) << from;
  return out.replace(out.find(from), from.size(), to);
}

TEST(DTensor, AShardsDimIsOneOfTheTensors) {
  const auto placed = [](const std::string& dim) {
    return found_in(changed_dtensor("dimK"s + '\0', "dim" + dim)).value().placements[1];
  };
  EXPECT_EQ(placed("K\1"), 1);
  EXPECT_EQ(placed("J\xff\xff\xff\xff"), 1);
  EXPECT_EQ(placed("J\xfe\xff\xff\xff"), 0);
  for (const char* dim : {"K\2", "J\xfd\xff\xff\xff", "N"})
    EXPECT_EQ(catch_error([&] { placed(dim); }).code(), ErrorCode::corrupt);
  const std::string state = ")\x81}(X\3\0\0\0dimK\0ub"s;
  const auto as_argument = found_in(changed_dtensor(state, "K\1\x85\x81"));
  EXPECT_EQ(as_argument.value().placements[1], 1);
}

TEST(DTensor, WhatItLacksIsSaid) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return catch_error([&] { found_in(changed_dtensor(from, to)); });
  };
  for (const char* name : {"_local_tensor", "_spec", "placements", "dim"}) {
    std::string other = name;
    other[1] = 'x';
    const Error error = refusal("\0\0"s + name, "\0\0"s + other);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << name;
    EXPECT_NE(error.sentence().find(name), std::string::npos) << error.sentence();
  }
  const std::string size = "K\4K\3\x86";
  EXPECT_EQ(refusal(size, "K\4N\x86").code(), ErrorCode::corrupt);
  EXPECT_EQ(refusal(size, "J\xff\xff\xff\xffK\3\x86").code(), ErrorCode::corrupt);
  EXPECT_EQ(found_in(changed_dtensor(size, "K\0K\3\x86"s)).value().shape, (Shape{0, 3}));
  EXPECT_EQ(refusal(size + "\x87", "\x86").code(), ErrorCode::corrupt) << "too few arguments";
  EXPECT_EQ(refusal("ub\x86ubu",
                    "ub\x86"
                    "0Nubu")
                .sentence(),
            "a DTensor has too few arguments")
      << "no placements";
  EXPECT_EQ(refusal("ub\x86ubu", "ub\x86u0u").sentence(), "a DTensor without a spec");
  EXPECT_EQ(refusal("butR.", "bu0NtR.").sentence(), "a DTensor without a state");
  const Error partial = refusal("types\nShard", "types\n_Partial");
  EXPECT_EQ(partial.code(), ErrorCode::unsupported);
  EXPECT_NE(partial.sentence().find("_Partial"), std::string::npos) << partial.sentence();
  EXPECT_FALSE(partial.hint_text().empty());
}

// The state of a class with slots is a pair, and a size can be an object.
TEST(DTensor, ItsStateAndItsSizeHaveTwoForms) {
  const auto with_state = [](const std::string& front, const std::string& back) {
    std::string out = changed_dtensor("\x86\x87}(", "\x86\x87" + front + "}(");
    return found_in(out.replace(out.size() - 3, 0, back)).value();
  };
  EXPECT_EQ(with_state("N", "\x86").placements.size(), 2U);
  const Error error = catch_error([&] { with_state("N", "N\x87"); });
  EXPECT_EQ(error.sentence(), "a DTensor without a state");
  const std::string size = "K\4K\3\x86";
  const auto torch_size = changed_dtensor(size, "ctorch\nSize\n" + size + "\x85R");
  EXPECT_EQ(found_in(torch_size).value().shape, (Shape{4, 3}));
}

TEST(DTensor, OtherObjectsAreNone) {
  EXPECT_FALSE(found_in("\x80\x02K\0."s));
  for (const char* name :
       {"_rebuild_from_type_v2", "_rebuild_wrapper_subclass", ".tensor\nDTensor"})
    EXPECT_FALSE(found_in(changed_dtensor(name, std::string(name) + "_x"))) << name;
  EXPECT_FALSE(found_in(changed_dtensor("torch.distributed.tensor\nD", "my.distributed\nD")));
  EXPECT_TRUE(found_in(changed_dtensor("tensor\nDTensor", "_tensor.api\nDTensor")));
}

// The runs of a list aren't places of elements, as those of a tuple are.
TEST(DTensor, RanksThatAreMadeOfAListAreAsIfNotStated) {
  const DTensorPickle made = with_mesh([](Writer& write) {
    mesh_object(write, [](Writer& state) {
      state.text("first").op(Op::empty_list).integer(0).op(Op::append);
      state.text("mesh").global("torch._utils", "_rebuild_tensor_v2").op(Op::empty_list);
      for (const std::uint64_t item : {0U, 0U, 2U}) state.integer(item).op(Op::append);
      state.op(Op::reduce);
    });
  });
  EXPECT_EQ(made.mesh.sizes, DeviceMesh());
}

TEST(DTensor, ADimOrSizeThatCannotBeIsSaid) {
  const auto said = [](const std::string& from, const std::string& to) {
    return catch_error([&] { found_in(changed_dtensor(from, to)); }).sentence();
  };
  const std::string dim = "dimK"s + '\0';
  EXPECT_EQ(said(dim, "dimK\2"), "a DTensor is split along a dim that it lacks");
  EXPECT_EQ(said(dim, "dimJ\xfd\xff\xff\xff"), "a DTensor is split along a dim that it lacks");
  EXPECT_EQ(said(dim, "dimN"), "a shard of a DTensor without a dim");
  EXPECT_EQ(said("K\4K\3\x86", "K\4N\x86"), "a DTensor with a size that isn't one");
  const Error partial =
      catch_error([] { found_in(changed_dtensor("types\nShard", "types\n_Partial")); });
  EXPECT_EQ(partial.sentence(),
            "a DTensor with placement "
            "\"torch.distributed.tensor.placement_types._Partial\", which hfshard can't read");
  EXPECT_EQ(partial.hint_text(),
            "save the full state (torch.distributed.checkpoint.state_dict, full_state_dict)");
}

}  // namespace
}  // namespace hfshard::format::torch
