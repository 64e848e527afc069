#include "format/dcp/metadata.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/inner_path.h"
#include "base/json.h"
#include "base/text.h"
#include "format/pickle.h"
#include "format/torch_dtype.h"
#include "format/unreadable.h"

namespace hfshard::format::dcp {
namespace {

using Id = Pickle::Id;
using Kind = Pickle::Kind;

constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{512} << 20;
// A short pickle can claim any number of members or chunks, since values can be shared.
constexpr std::uint64_t kMaxMembers = 64;
constexpr std::uint64_t kMaxPlannerShare = 16;
constexpr std::uint64_t kMaxBoxes = std::uint64_t{1} << 22;
constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";

// Decodes the classes of torch.distributed.checkpoint.metadata; FORMAT.md has the table. Follows
// the members that a class has, which bounds the depth, and ignores unknown ones.
class Decoder {
 public:
  Decoder(const Pickle& pickle, const std::vector<std::string>& without)
      : pickle_(pickle), without_(without) {}

  Metadata decode() {
    const Id root = pickle_.root();
    expect_class(root, "Metadata", "the pickle");
    const Id state = state_of(root, "the metadata");
    read_state_dict(member(state, "state_dict_metadata", Kind::dict));
    read_places(member(state, "storage_data", Kind::dict));
    read_planner(pickle_.find(state, "planner_data"));
    finish();
    return std::move(out_);
  }

 private:
  enum class Entry : std::uint8_t { tensor, object, left_out };
  struct Known {
    std::uint32_t number = 0;  // of the tensor or object
    Entry kind = Entry::tensor;
  };

  [[noreturn]] void fail(std::string sentence, std::string_view tensor = {},
                         ErrorCode code = ErrorCode::corrupt) const {
    Error error(code, std::move(sentence));
    error.in_file(pickle_.name());
    if (!tensor.empty()) error.in_tensor(tensor);
    throw error;
  }

  // -- Classes and their members

  bool is_of(Id id, std::string_view name) const {
    if (!pickle_.is(id, Kind::call)) return false;
    const std::string full = pickle_.global_name(pickle_.callee(id));
    return full.ends_with(name) && full.size() > name.size() &&
           full[full.size() - name.size() - 1] == '.' && full.starts_with("torch.");
  }
  void expect_class(Id id, std::string_view name, std::string_view what) const {
    if (pickle_.is(id, Kind::call) && pickle_.is_global(pickle_.callee(id), kMetadataModule, name))
      return;
    fail(fmt::format("{} isn't a {} of torch.distributed.checkpoint", what, name));
  }
  Id state_of(Id call, std::string_view what) const {
    const auto state = pickle_.state(call);
    if (!state || !pickle_.is(*state, Kind::dict))
      fail(fmt::format("{} doesn't have members", what));
    if (!pickle_.has_at_most(*state, 2 * kMaxMembers))
      fail(fmt::format("{} has more than {} members", what, kMaxMembers), {}, ErrorCode::limit);
    return *state;
  }
  Id member(Id dict, std::string_view name, std::optional<Kind> kind,
            std::string_view tensor = {}) const {
    const auto found = pickle_.find(dict, name);
    if (!found || (kind && !pickle_.is(*found, *kind)))
      fail(fmt::format("a {} is missing", quote(name)), tensor);
    return *found;
  }
  std::uint64_t size_of(Id id, std::string_view what, std::string_view tensor) const {
    if (!pickle_.is(id, Kind::integer) || pickle_.integer(id) < 0)
      fail(fmt::format("{} isn't a size", what), tensor);
    return static_cast<std::uint64_t>(pickle_.integer(id));
  }

  // Reads a torch.Size, or the tuple that other programs write for it.
  Shape shape_of(Id id, std::string_view what, std::string_view tensor) const {
    if (pickle_.is(id, Kind::call)) {
      const Id arguments = pickle_.arguments(id);
      if (!pickle_.is_global(pickle_.callee(id), "torch", "Size") ||
          !pickle_.is(arguments, Kind::tuple) || pickle_.tuple(arguments).size() != 1)
        fail(fmt::format("{} isn't a torch.Size", what), tensor);
      id = pickle_.tuple(arguments)[0];
    }
    Shape out;
    const auto add = [&](std::span<const Id> run) {
      for (const Id each : run) out.push_back(size_of(each, what, tensor));
    };
    try {
      if (pickle_.is(id, Kind::tuple)) {
        add(pickle_.tuple(id));
      } else if (pickle_.is(id, Kind::list)) {
        pickle_.for_each_run(id, add);
      } else {
        fail(fmt::format("{} isn't a torch.Size", what), tensor);
      }
    } catch (Error& error) {  // a shape with too many dims names no file
      throw error.in_file(pickle_.name()).in_tensor(tensor);
    }
    return out;
  }

  // -- state_dict_metadata

  template <typename Visit>
  void for_each_pair(Id dict, const Visit& visit) const {
    pickle_.for_each_run(dict, [&](std::span<const Id> run) {
      for (std::size_t i = 0; i + 1 < run.size(); i += 2) visit(run[i], run[i + 1]);
    });
  }

  void read_state_dict(Id dict) {
    for_each_pair(dict, [&](Id key, Id value) {
      if (!pickle_.is(key, Kind::text)) fail("a key of the state dict isn't a string");
      const std::string_view name = pickle_.text(key);
      if (!is_utf8(name)) fail("the name isn't valid Unicode", name, ErrorCode::unsupported);
      const bool is_object = is_of(value, "BytesStorageMetadata");
      const auto number =
          static_cast<std::uint32_t>(is_object ? out_.objects.size() : out_.tensors.size());
      const Entry kind = is_object                 ? Entry::object
                         : add_tensor(name, value) ? Entry::tensor
                                                   : Entry::left_out;
      if (!known_.emplace(name, Known{number, kind}).second)
        fail("the state dict has the key twice", name);
      if (!is_object) return;
      out_.objects.push_back({std::string(name), {}, {}});
      placed_.push_back(false);
    });
  }

  // Returns false for a tensor that is left out.
  bool add_tensor(std::string_view name, Id value) {
    try {
      out_.tensors.push_back(tensor_of(name, value));
      return true;
    } catch (const Error& error) {
      out_.unreadable.push_back(accept_unreadable(without_, name, error));
      return false;
    }
  }

  StoredTensor tensor_of(std::string_view name, Id value) {
    if (!is_of(value, "TensorStorageMetadata"))
      fail("the state dict's value is neither a tensor nor bytes", name);
    const Id state = state_of(value, "a tensor's metadata");
    StoredTensor out;
    out.name = name;
    out.dtype = dtype_of(member(state, "properties", std::nullopt, name), name);
    out.shape = shape_of(member(state, "size", std::nullopt, name), "a tensor's size", name);
    pickle_.for_each_run(member(state, "chunks", Kind::list, name), [&](std::span<const Id> run) {
      boxes_ += run.size();
      if (boxes_ > kMaxBoxes)
        fail(fmt::format("more than {} chunks", kMaxBoxes), name, ErrorCode::limit);
      for (const Id each : run) {
        const Id chunk = state_of(each, "a chunk");
        StoredBox box;
        box.begin = shape_of(member(chunk, "offsets", std::nullopt, name), "a chunk's place", name);
        box.extent = shape_of(member(chunk, "sizes", std::nullopt, name), "a chunk's size", name);
        check_box(out, box);
        if (std::ranges::find(box.extent, 0U) == box.extent.end()) out.boxes.push_back(box);
      }
    });
    std::ranges::sort(out.boxes, before);
    for (StoredBox& box : out.boxes) box.place.file = kNowhere;
    return out;
  }

  static bool before(const StoredBox& a, const StoredBox& b) {
    return std::ranges::lexicographical_compare(a.begin, b.begin);
  }

  void check_box(const StoredTensor& tensor, const StoredBox& box) const {
    const std::size_t rank = tensor.shape.rank();
    bool fits = box.begin.rank() == rank && box.extent.rank() == rank;
    for (std::size_t d = 0; fits && d < rank; ++d)
      fits = in_range(box.begin[d], box.extent[d], tensor.shape[d]);
    if (fits) return;
    fail(fmt::format("a chunk of {} at {} is outside the tensor, which is {}",
                     to_string(box.extent), to_string(box.begin), to_string(tensor.shape)),
         tensor.name);
  }

  // The properties are a tuple of five since 2024, and named members before.
  DType dtype_of(Id properties, std::string_view tensor) const {
    if (!is_of(properties, "TensorProperties")) fail("a tensor without properties", tensor);
    const auto state = pickle_.state(properties);
    std::optional<Id> dtype;
    std::optional<Id> layout;
    if (state && pickle_.is(*state, Kind::tuple) && pickle_.tuple(*state).size() >= 2) {
      dtype = pickle_.tuple(*state)[0];
      layout = pickle_.tuple(*state)[1];
    } else if (state && pickle_.is(*state, Kind::dict) &&
               pickle_.has_at_most(*state, 2 * kMaxMembers)) {
      dtype = pickle_.find(*state, "dtype");
      layout = pickle_.find(*state, "layout");
    }
    if (!dtype || !pickle_.is(*dtype, Kind::global)) fail("a tensor without a dtype", tensor);
    check_layout(layout, tensor);
    const std::string name = pickle_.global_name(*dtype);
    const TorchDType* known =
        name.starts_with("torch.") ? torch_dtype_named(name.substr(6)) : nullptr;
    if (known == nullptr) {
      fail(fmt::format("a tensor of {}, which hfshard can't read", quote(name)), tensor,
           ErrorCode::unsupported);
    }
    return known->dtype;
  }

  // torch.serialization._get_layout("torch.strided").
  void check_layout(std::optional<Id> layout, std::string_view tensor) const {
    if (!layout || !pickle_.is(*layout, Kind::call)) return;
    const Id arguments = pickle_.arguments(*layout);
    if (!pickle_.is(arguments, Kind::tuple) || pickle_.tuple(arguments).empty()) return;
    const Id name = pickle_.tuple(arguments)[0];
    if (!pickle_.is(name, Kind::text) || pickle_.text(name) == "torch.strided") return;
    fail(fmt::format("a tensor with the layout {}, which hfshard can't read",
                     quote(pickle_.text(name))),
         tensor, ErrorCode::unsupported);
  }

  // -- storage_data

  void read_places(Id dict) {
    for_each_pair(dict, [&](Id key, Id value) {
      if (!is_of(key, "MetadataIndex")) fail("a key of the storage data isn't a MetadataIndex");
      const Id index = state_of(key, "a MetadataIndex");
      const std::string_view name = pickle_.text(member(index, "fqn", Kind::text));
      const auto found = known_.find(name);
      if (found == known_.end())
        fail("the storage data have an entry that the state dict lacks", name);
      if (found->second.kind == Entry::left_out) return;
      std::vector<std::string> transforms;
      ItemPlace place = place_of(value, name, transforms);
      if (found->second.kind == Entry::object) {
        out_.objects[found->second.number].place = place;
        out_.objects[found->second.number].transforms = std::move(transforms);
        placed_[found->second.number] = true;
        return;
      }
      place.zstd = is_zstd(transforms, name);
      StoredTensor& tensor = out_.tensors[found->second.number];
      const auto offset = pickle_.find(index, "offset");
      StoredBox wanted;
      if (offset && !pickle_.is(*offset, Kind::none)) {
        wanted.begin = shape_of(*offset, "a chunk's place", name);
      } else {
        for (std::size_t d = 0; d < tensor.shape.rank(); ++d) wanted.begin.push_back(0);
      }
      // Boxes without elements were left out. Several boxes can share a place.
      const auto box = std::ranges::lower_bound(tensor.boxes, wanted, before);
      if (box != tensor.boxes.end() && box->begin == wanted.begin) box->place = place;
    });
  }

  ItemPlace place_of(Id value, std::string_view name, std::vector<std::string>& transforms) {
    if (!is_of(value, "_StorageInfo")) fail("a place that isn't a _StorageInfo", name);
    const Id state = state_of(value, "a _StorageInfo");
    const Id path = member(state, "relative_path", Kind::text, name);
    ItemPlace out;
    out.file = file_number(pickle_.text(path), name);
    out.offset_bytes = size_of(member(state, "offset", std::nullopt, name), "an offset", name);
    // Both are less than 2^63, so the end of the item fits.
    out.length_bytes = size_of(member(state, "length", std::nullopt, name), "a length", name);
    const auto stated = pickle_.find(state, "transform_descriptors");
    if (stated && !pickle_.is(*stated, Kind::none)) transforms = texts_of(*stated, name);
    return out;
  }

  std::vector<std::string> texts_of(Id transforms, std::string_view tensor) const {
    std::vector<std::string> names;
    if (!pickle_.is(transforms, Kind::list) || !pickle_.has_at_most(transforms, kMaxMembers))
      fail("transforms that aren't a list", tensor);
    pickle_.for_each_run(transforms, [&](std::span<const Id> run) {
      for (const Id each : run)
        names.emplace_back(pickle_.is(each, Kind::text) ? pickle_.text(each) : "?");
    });
    return names;
  }

  bool is_zstd(const std::vector<std::string>& names, std::string_view tensor) const {
    if (names.empty()) return false;
    if (names.size() == 1 && names[0] == kZstdTransform) return true;
    fail(fmt::format("an item went through {}, which hfshard can't undo", quote(join(names, ", "))),
         tensor, ErrorCode::unsupported);
  }

  std::uint32_t file_number(std::string_view path, std::string_view tensor) {
    const auto next = static_cast<std::uint32_t>(out_.files.size());
    const auto [known, fresh] = files_.try_emplace(path, next);
    if (!fresh) return known->second;
    if (!is_inner_path(path))
      fail(fmt::format("the file {} isn't in the checkpoint's directory", quote(path)), tensor);
    out_.files.emplace_back(path);
    return next;
  }

  // -- planner_data

  // The default planner maps each key to its path of dict keys and list indices. Other planners
  // write anything. Source: pytorch/pytorch torch/distributed/checkpoint/_nested_dict.py,
  // default_planner.py.
  void read_planner(std::optional<Id> planner) {
    if (!planner || pickle_.is(*planner, Kind::none)) return;
    out_.other_planner = !pickle_.is(*planner, Kind::dict);
    if (out_.other_planner) return;
    std::uint64_t bytes = 0;
    for_each_pair(*planner, [&](Id key, Id path) {
      const std::string_view name = pickle_.is(key, Kind::text) ? pickle_.text(key) : "";
      const auto keys = keys_of(path);
      out_.other_planner = out_.other_planner || !keys;
      if (!keys || !known_.contains(name)) return;
      if (keys->size() == 1 && keys->front() == Json(name)) return;
      out_.nested.push_back({std::string(name), dump_json(Json(*keys))});
      // A short pickle can claim any number of bytes, since values can be shared.
      bytes += out_.nested.back().keys.size();
      if (bytes > kMaxPlannerShare * pickle_.size_bytes())
        fail("planner_data is too large", name, ErrorCode::limit);
    });
    std::ranges::sort(out_.nested, {}, &NestedName::name);
    const auto twice = std::ranges::adjacent_find(out_.nested, {}, &NestedName::name);
    if (twice != out_.nested.end()) fail("planner_data has the key twice", twice->name);
    if (out_.other_planner) out_.nested.clear();
  }

  std::optional<Json::Array> keys_of(Id path) const {
    if (!pickle_.is(path, Kind::tuple)) return std::nullopt;
    const auto items = pickle_.tuple(path);
    if (items.empty() || items.size() > kMaxMembers) return std::nullopt;
    Json::Array out;
    for (const Id item : items) {
      const bool is_text = pickle_.is(item, Kind::text) && is_utf8(pickle_.text(item));
      if (!is_text && (!pickle_.is(item, Kind::integer) || pickle_.integer(item) < 0))
        return std::nullopt;
      out.push_back(is_text ? Json(pickle_.text(item)) : Json(pickle_.integer(item)));
    }
    return out;
  }

  void finish() {
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (!placed_[i])
        fail("the metadata don't say where the object is stored", out_.objects[i].name);
    }
    for (const StoredTensor& tensor : out_.tensors) {
      for (const StoredBox& box : tensor.boxes) {
        if (box.place.file != kNowhere) continue;
        fail(fmt::format("the metadata don't say where the chunk at {} is stored",
                         to_string(box.begin)),
             tensor.name);
      }
    }
    std::ranges::sort(out_.tensors, {}, &StoredTensor::name);
    std::ranges::sort(out_.objects, {}, &StoredObject::name);
  }

  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  std::uint64_t boxes_ = 0;
  const Pickle& pickle_;
  const std::vector<std::string>& without_;
  Metadata out_;
  std::vector<bool> placed_;  // objects
  std::unordered_map<std::string_view, Known> known_;
  std::unordered_map<std::string_view, std::uint32_t> files_;
};

}  // namespace

Metadata read_metadata(const StorePath& path, const std::vector<std::string>& without) {
  return read_metadata(path.read(kMaxMetadataBytes), path.text(), without);
}

Metadata read_metadata(std::string bytes, const std::string& name,
                       const std::vector<std::string>& without) {
  const Pickle pickle(std::move(bytes), name, Persistent::refused);
  return Decoder(pickle, without).decode();
}

}  // namespace hfshard::format::dcp
