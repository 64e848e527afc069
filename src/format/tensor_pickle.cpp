#include "format/tensor_pickle.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "format/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format {
namespace {

using Id = Pickle::Id;
using Kind = Pickle::Kind;

constexpr std::string_view kUtils = "torch._utils";
constexpr std::string_view kTyped = "_rebuild_tensor_v2";
constexpr std::string_view kUntyped = "_rebuild_tensor_v3";
constexpr std::string_view kOldest = "_rebuild_tensor";
constexpr std::string_view kParameter = "_rebuild_parameter";
constexpr std::string_view kWithState = "_rebuild_parameter_with_state";
// Argument positions of a rebuilding function. Source: pytorch/pytorch torch/_utils.py.
constexpr std::size_t kStorage = 0;
constexpr std::size_t kOffset = 1;
constexpr std::size_t kSize = 2;
constexpr std::size_t kStride = 3;
constexpr std::size_t kHooks = 5;
constexpr std::size_t kDType = 6;  // v3 only
constexpr int kMostWrappers = 4;
// Makes a tensor of a class, or one with attributes, by another function: (function, class,
// arguments, attributes). Source: pytorch/pytorch torch/_tensor.py.
constexpr std::string_view kTensors = "torch._tensor";
constexpr std::string_view kOfClass = "_rebuild_from_type_v2";
// Classes whose values are those of a plain tensor.
constexpr std::array<std::string_view, 3> kPlainClasses{
    "torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"};

class TensorDecoder {
 public:
  explicit TensorDecoder(const Pickle& pickle) : pickle_(pickle) {}

  StoragePickle storage(Id id) {
    TensorPickle out;
    read_storage(id, out);
    const auto parts = pickle_.tuple(pickle_.inner(id));
    const bool is_view = parts.size() > 5 && !pickle_.is(parts[5], Kind::none);
    return {std::move(out.record), bytes_of(numel_), untyped_storage_ ? 1 : unit_bytes(*dtype_),
            is_view};
  }

  TensorPickle decode(Id id) {
    const Made made = made_by(unwrapped(id));
    const auto is_of = [&](std::string_view name) {
      return pickle_.is_global(made.function, kUtils, name);
    };
    const bool untyped = is_of(kUntyped);
    if (!untyped && !is_of(kTyped) && !is_of(kOldest)) refuse(made.function);
    const auto given = tuple_of(made.arguments, untyped ? kDType + 1 : kStride + 1);
    TensorPickle out;
    read_storage(given[kStorage], out);
    if (untyped) {
      const std::string name = pickle_.global_name(given[kDType]);
      const TorchDType* known =
          name.starts_with("torch.") ? torch_dtype_named(name.substr(6)) : nullptr;
      if (known == nullptr)
        throw Error(ErrorCode::unsupported,
                    fmt::format("a tensor of {}, which hfshard can't read", quote(name)));
      dtype_ = known->dtype;
    }
    if (!dtype_) fail("a tensor without a dtype");
    out.dtype = *dtype_;
    if (!untyped && given.size() > kHooks + 1) check_flags(given[kHooks + 1]);
    out.storage_bytes = bytes_of(numel_);
    out.offset = size_of(given[kOffset]);
    out.shape = shape_of(given[kSize]);
    out.strides = shape_of(given[kStride]);
    check_bounds(out);
    return out;
  }

 private:
  [[noreturn]] static void fail(std::string sentence) {
    throw Error(ErrorCode::corrupt, std::move(sentence));
  }
  [[noreturn]] void refuse(Id function) const {
    const std::string name = pickle_.global_name(function);
    throw Error(ErrorCode::unsupported,
                name.empty()
                    ? "the item is no tensor"
                    : fmt::format("a tensor that {} makes, which hfshard can't read", quote(name)));
  }

  bool is_call(Id id, std::string_view name) const {
    return pickle_.is(id, Kind::call) && pickle_.is_global(pickle_.callee(id), kUtils, name);
  }
  std::span<const Id> tuple_of(Id given, std::size_t least) const {
    if (!pickle_.is(given, Kind::tuple) || pickle_.tuple(given).size() < least)
      fail("a tensor is made of too few arguments");
    return pickle_.tuple(given);
  }
  std::span<const Id> arguments(Id call, std::size_t least) const {
    return tuple_of(pickle_.arguments(call), least);
  }
  struct Made {
    Id function;
    Id arguments;
  };
  // Returns what makes the values of a tensor.
  Made made_by(Id id) const {
    if (!pickle_.is(id, Kind::call)) throw Error(ErrorCode::unsupported, "the item is no tensor");
    Made out{pickle_.callee(id), pickle_.arguments(id)};
    if (!pickle_.is_global(out.function, kTensors, kOfClass)) return out;
    const auto given = arguments(id, 4);
    const std::string name = pickle_.global_name(given[1]);
    if (std::ranges::find(kPlainClasses, name) == kPlainClasses.end()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("a tensor of the class {}, which hfshard can't read", quote(name)));
    }
    return {given[0], given[2]};
  }
  Id unwrapped(Id id) const {
    for (int i = 0; i < kMostWrappers && (is_call(id, kParameter) || is_call(id, kWithState)); ++i)
      id = arguments(id, 1)[0];
    return id;
  }
  std::uint64_t size_of(Id id) const {
    if (!pickle_.is(id, Kind::integer) || pickle_.integer(id) < 0) fail("a size that isn't a size");
    return static_cast<std::uint64_t>(pickle_.integer(id));
  }
  Shape shape_of(Id id) const {
    if (pickle_.is(id, Kind::call) && pickle_.is_global(pickle_.callee(id), "torch", "Size"))
      id = arguments(id, 1)[0];
    if (!pickle_.is(id, Kind::tuple)) fail("a shape that is no tuple");
    Shape out;
    for (const Id each : pickle_.tuple(id)) out.push_back(size_of(each));
    return out;
  }
  std::uint64_t bytes_of(std::uint64_t numel) const {
    const auto out = checked_mul(numel, untyped_storage_ ? 1 : unit_bytes(*dtype_));
    if (!out) fail("a storage of more than 2^64 bytes");
    return *out;
  }

  // Reads ("storage", its class, key, location, numel).
  void read_storage(Id id, TensorPickle& out) {
    if (!pickle_.is(id, Kind::persistent) || !pickle_.is(pickle_.inner(id), Kind::tuple))
      fail("a tensor without a storage");
    const auto parts = pickle_.tuple(pickle_.inner(id));
    if (parts.size() < 5 || !pickle_.is(parts[0], Kind::text) ||
        pickle_.text(parts[0]) != "storage" || !pickle_.is(parts[2], Kind::text))
      fail("a tensor's storage isn't a storage");
    const std::string name = pickle_.global_name(parts[1]);
    untyped_storage_ = name == "torch.storage.UntypedStorage";
    if (!untyped_storage_) {
      const TorchDType* known =
          name.starts_with("torch.") ? torch_dtype_of_storage(name.substr(6)) : nullptr;
      if (known == nullptr)
        throw Error(ErrorCode::unsupported,
                    fmt::format("a storage of {}, which hfshard can't read", quote(name)));
      dtype_ = known->dtype;
    }
    out.record = "data/" + std::string(pickle_.text(parts[2]));
    numel_ = size_of(parts[4]);
  }

  // With flags such as {"conj": True}, the stored elements differ from the tensor's.
  void check_flags(Id id) const {
    if (pickle_.is(id, Kind::dict) && !pickle_.has_at_most(id, 0))
      throw Error(ErrorCode::unsupported, "a tensor that is a conjugate or negative view");
  }

  static void check_bounds(const TensorPickle& out) {
    if (out.strides.rank() != out.shape.rank()) fail("a tensor with strides of another rank");
    const std::uint64_t each = unit_bytes(out.dtype);
    std::optional<std::uint64_t> last = out.offset;
    for (std::size_t d = 0; d < out.shape.rank() && last; ++d) {
      if (out.shape[d] == 0) return;
      const auto step = checked_mul(out.shape[d] - 1, out.strides[d]);
      last = step ? checked_add(*last, *step) : std::nullopt;
    }
    if (!last || *last >= out.storage_bytes / each) {
      fail(fmt::format("a tensor of {} reaches beyond its storage of {} bytes",
                       to_string(out.shape), out.storage_bytes));
    }
  }

  const Pickle& pickle_;
  std::optional<DType> dtype_;
  std::uint64_t numel_ = 0;
  bool untyped_storage_ = false;
};

}  // namespace

TensorPickle read_tensor_pickle(const Pickle& pickle) {
  return read_tensor_pickle(pickle, pickle.root());
}

TensorPickle read_tensor_pickle(const Pickle& pickle, Pickle::Id id) {
  return TensorDecoder(pickle).decode(id);
}

StoragePickle read_storage_pickle(const Pickle& pickle, Pickle::Id id) {
  return TensorDecoder(pickle).storage(id);
}

bool is_tensor_pickle(const Pickle& pickle, Pickle::Id id) {
  if (!pickle.is(id, Kind::call)) return false;
  const std::string name = pickle.global_name(pickle.callee(id));
  return name.starts_with("torch._utils._rebuild_") || name.starts_with("torch._tensor._rebuild_");
}

}  // namespace hfshard::format
