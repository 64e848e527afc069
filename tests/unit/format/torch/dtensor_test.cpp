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
DTensorPickle with_mesh(const Write& mesh) {
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
  const Pickle pickle(stream, "memory", Persistent::allowed);
  return find_dtensor(pickle, pickle.root()).value();
}

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

// The same with one object for all axes.
DTensorPickle with_layout(const Shape& sizes, const Shape& steps, const Shape& ranks) {
  return with_mesh([&](Writer& write) {
    mesh_object(write, [&](Writer& state) {
      state.text("_layout");
      object(state, "torch.distributed._mesh_layout", "_MeshLayout", [&](Writer& layout) {
        layout.text("shape").integers(sizes).text("stride").integers(steps);
      });
      state.text("_flatten_rank_map").integers(ranks);
    });
  });
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

}  // namespace
}  // namespace hfshard::format::torch
