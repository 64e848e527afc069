#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/coding.h"
#include "base/json.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/write.h"
#include "format/torch_dtype.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kStorageClasses = "torch.distributed.checkpoint.filesystem";

// The classes of .metadata, as pickle writes dataclasses: the class, no arguments, its members.
// Frequent values are kept in the memo. Its numbers follow the order of first use, so one pass
// makes the bytes.
class MetadataWriter {
 public:
  MetadataWriter(const TreeSpec& tree, const Placements& placed, const ByteSink& sink)
      : leaves_(*tree.leaves),
        grids_(*tree.grids),
        objects_(tree.objects),
        nested_(tree.nested),
        placed_(placed),
        sink_(sink),
        write_(out_) {}

  void write() {
    write_.begin();
    object(kClasses, "Metadata");
    key("state_dict_metadata").op(Op::empty_dict);
    for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) write_tensor(leaf);
    for (std::uint32_t object = 0; object < objects_.items.size(); ++object) write_object(object);
    key("planner_data").op(Op::empty_dict);
    const auto names = static_cast<std::uint32_t>(leaves_.size() + objects_.items.size());
    for (std::uint32_t number = 0; number < names; ++number) write_keys(number);
    key("storage_data").op(Op::empty_dict);
    for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) write_places(leaf);
    write_object_places();
    end_object();
    write_.op(Op::stop);
    sink_(as_bytes(out_));
  }

 private:
  // -- Kept values

  // Pushes the kept value of this key. Returns true if the caller must make it first.
  bool is_new(const std::string& kept) {
    const auto [found, fresh] = memo_.try_emplace(kept, next_);
    if (fresh) return true;
    write_.get(found->second);
    return false;
  }
  void keep() { write_.put(next_++); }

  void global(std::string_view module, std::string_view name) {
    if (!is_new("c" + std::string(module) + "." + std::string(name))) return;
    write_.global(module, name);
    keep();
  }
  PickleWriter& key(std::string_view text) {
    if (is_new("t" + std::string(text))) {
      write_.text(text);
      keep();
    }
    return write_;
  }
  // Leaves have the first numbers, objects the next.
  const std::string& name_of(std::uint32_t number) const {
    return number < leaves_.size() ? leaves_[number].name
                                   : objects_.items[number - leaves_.size()]->name;
  }
  void name(std::uint32_t number) {
    if (names_.size() == number) {
      write_.text(name_of(number));
      names_.push_back(next_);
      keep();
    } else {
      write_.get(names_[number]);
    }
  }

  // -- Classes

  void object(std::string_view module, std::string_view name) {
    global(module, name);
    write_.op(Op::empty_tuple).op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
  }
  void end_object() { write_.op(Op::set_items).op(Op::build); }

  void size(const Shape& shape) {
    global("torch", "Size");
    write_.integers(shape).op(Op::tuple1).op(Op::reduce);
  }

  void properties(DType dtype) {
    const std::string_view torch = torch_dtype(dtype)->name;
    if (!is_new("p" + std::string(torch))) return;
    // Its number must come after those of its components.
    memo_.erase("p" + std::string(torch));
    global(kClasses, "TensorProperties");
    write_.op(Op::empty_tuple).op(Op::new_obj).op(Op::mark);
    global("torch", torch);
    global("torch.serialization", "_get_layout");
    key("torch.strided").op(Op::tuple1).op(Op::reduce).op(Op::new_false);  // requires_grad
    global(kClasses, "_MEM_FORMAT_ENCODING");
    write_.integer(0).op(Op::tuple1).op(Op::reduce).op(Op::new_false);  // pin_memory
    write_.op(Op::tuple).op(Op::build);
    memo_["p" + std::string(torch)] = next_;
    keep();
  }

  // Calls `visit(begin, extent, chunk)` for the boxes of a leaf, in units.
  template <typename Visit>
  void for_each_box(std::uint32_t leaf, const Visit& visit) {
    const Leaf& info = leaves_[leaf];
    const Shape shape = to_units(info.dtype, info.shape);
    const Shape chunk = to_units(info.dtype, grids_[leaf].chunk);
    for_each_chunk(chunk_counts(info.shape, grids_[leaf].chunk), [&](const Shape& at) {
      Shape begin = at;
      Shape extent = chunk;
      for (std::size_t d = 0; d < at.rank(); ++d) {
        begin[d] *= chunk[d];
        extent[d] = std::min(chunk[d], shape[d] - begin[d]);
      }
      visit(begin, extent, at);
      flush();
      return true;
    });
  }

  void write_tensor(std::uint32_t leaf) {
    const Leaf& info = leaves_[leaf];
    write_.op(Op::mark);
    name(leaf);
    object(kClasses, "TensorStorageMetadata");
    key("properties");
    properties(info.dtype);
    key("size");
    size(to_units(info.dtype, info.shape));
    key("chunks").op(Op::empty_list).op(Op::mark);
    for_each_box(leaf, [&](const Shape& begin, const Shape& extent, const Shape&) {
      object(kClasses, "ChunkStorageMetadata");
      key("offsets");
      size(begin);
      key("sizes");
      size(extent);
      end_object();
    });
    write_.op(Op::appends);
    end_object();
    write_.op(Op::set_items);
    flush();
  }

  // BytesStorageMetadata has no members.
  void write_object(std::uint32_t object) {
    write_.op(Op::mark);
    name(static_cast<std::uint32_t>(leaves_.size() + object));
    global(kClasses, "BytesStorageMetadata");
    write_.op(Op::empty_tuple).op(Op::new_obj).op(Op::set_items);
    flush();
  }

  // Writes the path of a name in the saved state: its keys there, or the name itself.
  void write_keys(std::uint32_t number) {
    const std::string_view known =
        nested_ != nullptr ? nested_keys(*nested_, name_of(number)) : std::string_view();
    write_.op(Op::mark);
    name(number);
    if (known.empty()) {
      name(number);
      write_.op(Op::tuple1);
    } else {
      const Json keys = parse_json(known, name_of(number));
      const Json::Array& items = keys.as_array();
      write_.begin_tuple(items.size());
      for (const Json& item : items) {
        if (item.is_string()) {
          key(item.as_string());
        } else {
          write_.integer(item.as_uint());
        }
      }
      write_.end_tuple(items.size());
    }
    write_.op(Op::set_items);
    flush();
  }

  // Writes the places of the objects, which follow each other unchanged.
  void write_object_places() {
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < objects_.items.size(); ++i) {
      const ObjectInfo& info = *objects_.items[i];
      write_.op(Op::mark);
      object(kClasses, "MetadataIndex");
      key("fqn");
      name(static_cast<std::uint32_t>(leaves_.size() + i));
      key("index").op(Op::none);
      end_object();
      object(kStorageClasses, "_StorageInfo");
      key("relative_path");
      key(objects_.file);
      key("offset").integer(offset);
      key("length").integer(info.size_bytes());
      if (!info.transforms.empty()) {
        key("transform_descriptors").op(Op::empty_list).op(Op::mark);
        for (const std::string& transform : info.transforms) key(transform);
        write_.op(Op::appends);
      }
      end_object();
      write_.op(Op::set_items);
      flush();
      offset += info.size_bytes();
    }
  }

  void write_places(std::uint32_t leaf) {
    std::uint64_t index = 0;
    const Leaf& info = leaves_[leaf];
    const PieceForm form = piece_form(info, grids_[leaf], {});
    write_.op(Op::mark);
    for_each_box(leaf, [&](const Shape& begin, const Shape& extent, const Shape& chunk) {
      object(kClasses, "MetadataIndex");
      key("fqn");
      name(leaf);
      key("index").integer(index++);
      key("offset");
      size(begin);
      end_object();
      const Place place = placed_.place(leaf, chunk);
      object(kStorageClasses, "_StorageInfo");
      key("relative_path");
      key(placed_.file_path(place.file));
      key("offset").integer(place.offset_bytes);
      key("length").integer(form.head_bytes + extent.numel() * unit_bytes(info.dtype) +
                            form.tail_bytes);
      end_object();
    });
    write_.op(Op::set_items);
  }

  void flush() {
    constexpr std::size_t kFlushed = std::size_t{64} << 10;
    if (out_.size() < kFlushed) return;
    sink_(as_bytes(out_));
    out_.clear();
  }

  const std::vector<Leaf>& leaves_;
  const PerLeaf<Grid>& grids_;
  const CarriedObjects& objects_;
  const std::vector<NestedName>* nested_;
  const Placements& placed_;
  const ByteSink& sink_;
  std::string out_;
  PickleWriter write_;
  std::map<std::string, std::uint32_t> memo_;
  std::vector<std::uint32_t> names_;  // per leaf and object written so far
  std::uint32_t next_ = 0;
};

}  // namespace

void write_metadata(const TreeSpec& tree, const Placements& placed, const ByteSink& sink) {
  MetadataWriter(tree, placed, sink).write();
}

}  // namespace hfshard::format::dcp
