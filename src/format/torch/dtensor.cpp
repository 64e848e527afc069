#include "format/torch/dtensor.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "format/tensor_pickle.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Id = Pickle::Id;
using Kind = Pickle::Kind;

// Argument positions of _rebuild_from_type_v2, and of _rebuild_wrapper_subclass.
constexpr std::size_t kMaker = 0;
constexpr std::size_t kMakerArguments = 2;
constexpr std::size_t kState = 3;
constexpr std::size_t kClass = 0;
constexpr std::size_t kSize = 2;
// Argument position of _rebuild_tensor_v2.
constexpr std::size_t kTensorSize = 2;

class DTensorDecoder {
 public:
  explicit DTensorDecoder(const Pickle& pickle) : pickle_(pickle) {}

  std::optional<DTensorPickle> decode(Id id) const {
    if (!pickle_.is(id, Kind::call) ||
        !pickle_.is_global(pickle_.callee(id), "torch._tensor", "_rebuild_from_type_v2"))
      return std::nullopt;
    const auto given = tuple(pickle_.arguments(id), kState + 1);
    if (!pickle_.is_global(given[kMaker], "torch._utils", "_rebuild_wrapper_subclass"))
      return std::nullopt;
    const auto made_of = tuple(given[kMakerArguments], kSize + 1);
    const std::string name = pickle_.global_name(made_of[kClass]);
    // torch moved the module: torch.distributed._tensor.api, torch.distributed.tensor.
    if (!name.starts_with("torch.distributed.") || !name.ends_with(".DTensor")) return std::nullopt;
    DTensorPickle out;
    out.shape = shape_of(made_of[kSize]);
    const Id state = state_of(given[kState]);
    out.local = member(state, "_local_tensor");
    const Id spec = object_state(member(state, "_spec"));
    for (const Id each : tuple(member(spec, "placements"), 0))
      out.placements.push_back(placement_of(each, out.shape));
    out.mesh = mesh_of(spec);
    if (out.mesh.sizes.size() != out.placements.size()) out.mesh = {};
    return out;
  }

 private:
  using Sizes = std::vector<std::uint64_t>;

  [[noreturn]] static void fail(std::string sentence) {
    throw Error(ErrorCode::corrupt, std::move(sentence));
  }
  std::span<const Id> tuple(Id id, std::size_t least) const {
    if (!pickle_.is(id, Kind::tuple) || pickle_.tuple(id).size() < least)
      fail("a DTensor has too few arguments");
    return pickle_.tuple(id);
  }
  // The state is a dict or, for a class with slots, (None, dict).
  Id state_of(Id id) const {
    if (pickle_.is(id, Kind::tuple) && pickle_.tuple(id).size() == 2) id = pickle_.tuple(id)[1];
    if (!pickle_.is(id, Kind::dict)) fail("a DTensor without a state");
    return id;
  }
  Id object_state(Id id) const {
    const auto state = pickle_.is(id, Kind::call) ? pickle_.state(id) : std::nullopt;
    if (!state) fail("a DTensor without a spec");
    return state_of(*state);
  }
  Id member(Id dict, std::string_view name) const {
    const auto found = pickle_.find(dict, name);
    if (!found) fail(fmt::format("a DTensor without {}", name));
    return *found;
  }
  Shape shape_of(Id id) const {
    if (pickle_.is(id, Kind::call)) id = tuple(pickle_.arguments(id), 1)[0];  // torch.Size
    Shape out;
    for (const Id each : tuple(id, 0)) {
      if (!pickle_.is(each, Kind::integer) || pickle_.integer(each) < 0)
        fail("a DTensor with a size that isn't one");
      out.push_back(static_cast<std::uint64_t>(pickle_.integer(each)));
    }
    return out;
  }
  Placement placement_of(Id id, const Shape& shape) const {
    const std::string name =
        pickle_.is(id, Kind::call) ? pickle_.global_name(pickle_.callee(id)) : std::string();
    if (name.ends_with(".Replicate")) return kReplicated;
    if (!name.ends_with(".Shard")) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("a DTensor with placement {}, which hfshard can't read", quote(name)))
          .hint("save the full state (torch.distributed.checkpoint.state_dict, full_state_dict)");
    }
    // The dim is an argument or part of the state.
    const auto state = pickle_.state(id);
    const auto made_of = tuple(pickle_.arguments(id), 0);
    const Id dim = state ? member(state_of(*state), "dim") : made_of.empty() ? id : made_of[0];
    if (!pickle_.is(dim, Kind::integer)) fail("a shard of a DTensor without a dim");
    const auto rank = static_cast<std::int64_t>(shape.rank());
    const std::int64_t axis = pickle_.integer(dim) + (pickle_.integer(dim) < 0 ? rank : 0);
    if (axis < 0 || axis >= rank) fail("a DTensor is split along a dim that it lacks");
    return static_cast<Placement>(axis);
  }

  // An object of a mesh is only a help, so an unknown one isn't an error.
  std::optional<Id> known(std::optional<Id> object, std::string_view name) const {
    if (!object || !pickle_.is(*object, Kind::call)) return std::nullopt;
    const auto state = pickle_.state(*object);
    if (!state || !pickle_.is(*state, Kind::dict)) return std::nullopt;
    return pickle_.find(*state, name);
  }
  // Returns the numbers of a tuple, or a single number.
  std::optional<Sizes> numbers(std::optional<Id> id) const {
    if (!id) return std::nullopt;
    const bool is_tuple = pickle_.is(*id, Kind::tuple);
    Sizes out;
    for (const Id each : is_tuple ? pickle_.tuple(*id) : std::span<const Id>(&*id, 1)) {
      if (!pickle_.is(each, Kind::integer) || pickle_.integer(each) < 0) return std::nullopt;
      out.push_back(static_cast<std::uint64_t>(pickle_.integer(each)));
    }
    return out;
  }
  // Until torch 2.9, a mesh has a tensor of ranks. From then on, it has sizes and steps by axis,
  // and in newer versions, each axis is an object with its own.
  StatedMesh mesh_of(Id spec) const {
    const auto mesh = pickle_.find(spec, "mesh");
    if (const auto ranks = known(mesh, "mesh"); ranks && is_tensor_pickle(pickle_, *ranks))
      return ordered(shape_of_ranks(*ranks), {}, known(mesh, "_flatten_mesh_list"));
    const auto layout = known(mesh, "_layout");
    const auto axes = known(layout, "axes");
    if (!axes || !pickle_.is(*axes, Kind::tuple)) {
      return ordered(numbers(known(layout, "shape")), numbers(known(layout, "stride")),
                     known(mesh, "_flatten_rank_map"));
    }
    Sizes sizes;
    Sizes steps;
    for (const Id axis : pickle_.tuple(*axes)) {
      const auto size = numbers(known(axis, "shape"));
      const auto step = numbers(known(axis, "stride"));
      if (!size || !step || size->size() != 1 || step->size() != 1) return {};
      sizes.push_back(size->front());
      steps.push_back(step->front());
    }
    return ordered(std::move(sizes), std::move(steps), known(mesh, "_flatten_rank_map"));
  }
  std::optional<Sizes> shape_of_ranks(Id tensor) const {
    const auto arguments = pickle_.arguments(tensor);
    if (!pickle_.is(arguments, Kind::tuple) || pickle_.tuple(arguments).size() <= kTensorSize)
      return std::nullopt;
    return numbers(pickle_.tuple(arguments)[kTensorSize]);
  }
  StatedMesh ordered(std::optional<Sizes> sizes, const std::optional<Sizes>& steps,
                     std::optional<Id> list) const {
    if (!sizes) return {};
    StatedMesh out{std::move(*sizes), true};
    if (steps && steps->size() == out.sizes.size()) {
      std::uint64_t step = 1;
      for (std::size_t axis = out.sizes.size(); axis-- > 0; step *= out.sizes[axis]) {
        if (out.sizes[axis] != 1 && (*steps)[axis] != step) out.is_in_order = false;
      }
    }
    const Sizes ranks = numbers(list).value_or(Sizes{});
    for (std::size_t i = 0; i < ranks.size(); ++i)
      out.is_in_order = out.is_in_order && ranks[i] == i;
    return out;
  }

  const Pickle& pickle_;
};

}  // namespace

std::optional<DTensorPickle> find_dtensor(const Pickle& pickle, Pickle::Id id) {
  return DTensorDecoder(pickle).decode(id);
}

}  // namespace hfshard::format::torch
