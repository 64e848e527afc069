#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/coding.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/torch_dtype.h"
#include "format/dcp/write.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kStorageClasses = "torch.distributed.checkpoint.filesystem";

// The classes of .metadata, as pickle writes dataclasses: the class, no arguments, its members.
// What occurs often is kept in the memo, whose numbers are in the order of first use, so that the
// bytes are made in one pass.
class MetadataWriter {
 public:
  MetadataWriter(const TreeSpec& tree, const Placements& placed, const ByteSink& sink)
      : leaves_(*tree.leaves), grids_(*tree.grids), placed_(placed), sink_(sink), write_(out_) {}

  void write() {
    write_.begin();
    object(kClasses, "Metadata");
    key("state_dict_metadata").op(Op::empty_dict);
    for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) write_tensor(leaf);
    key("planner_data").op(Op::empty_dict);
    for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      // Where the tensor is in the dict that was saved: under its name.
      write_.op(Op::mark);
      name(leaf);
      name(leaf);
      write_.op(Op::tuple1).op(Op::set_items);
      flush();
    }
    key("storage_data").op(Op::empty_dict);
    for (std::uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) write_places(leaf);
    end_object();
    write_.op(Op::stop);
    sink_(as_bytes(out_));
  }

 private:
  // -- Kept values

  // Brings back what `make` made under this key before; true if that is now to be made.
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
  void name(std::uint32_t leaf) {
    if (names_.size() == leaf) {
      write_.text(leaves_[leaf].name);
      names_.push_back(next_);
      keep();
    } else {
      write_.get(names_[leaf]);
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
    // Its number comes after those of what it is made of.
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
  const Placements& placed_;
  const ByteSink& sink_;
  std::string out_;
  PickleWriter write_;
  std::map<std::string, std::uint32_t> memo_;
  std::vector<std::uint32_t> names_;  // of each leaf so far
  std::uint32_t next_ = 0;
};

}  // namespace

void write_metadata(const TreeSpec& tree, const Placements& placed, const ByteSink& sink) {
  MetadataWriter(tree, placed, sink).write();
}

}  // namespace hfshard::format::dcp
