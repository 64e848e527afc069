#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/coding.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "catalog/format.h"
#include "support/temp_dir.h"

namespace hfshard {

/// Visits all coordinates of a grid, row-major.
template <typename Visit>
void for_each_chunk(const Shape& counts, Visit&& visit) {
  Shape at = counts;
  for (std::size_t d = 0; d < at.rank(); ++d) at[d] = 0;
  for (std::uint64_t left = counts.numel(); left > 0; --left) {
    visit(at);
    for (std::size_t d = counts.rank(); d-- > 0;) {
      if (++at[d] < counts[d]) break;
      at[d] = 0;
    }
  }
}

/// Copies the box of `extent` elements at `origin` of a packed array into a packed box or, with
/// `back`, from it. Skips elements outside of the array.
inline void copy_box(std::string& array, const Shape& shape, std::string& box, const Shape& extent,
                     const Shape& origin, std::size_t element_bytes, bool back) {
  const Shape in_array = shape.strides();
  const Shape in_box = extent.strides();
  for_each_chunk(extent, [&](const Shape& at) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    for (std::size_t d = 0; d < at.rank(); ++d) {
      if (origin[d] + at[d] >= shape[d]) return;
      from += (origin[d] + at[d]) * in_array[d];
      to += at[d] * in_box[d];
    }
    for (std::size_t i = 0; i < element_bytes; ++i) {
      char& a = array[from * element_bytes + i];
      char& b = box[to * element_bytes + i];
      (back ? a : b) = back ? b : a;
    }
  });
}

/// Makes small checkpoints of random values with a format's own parts. Chunks go round robin to
/// data files, 512 bytes apart unless the format sets the alignment.
class CheckpointBuilder : public Placements {
 public:
  explicit CheckpointBuilder(const Format& format, std::uint32_t files = 3,
                             const Encoding& encoding = {})
      : format_(format),
        layout_(format.layout()),
        encoding_(encoding),
        data_(files, layout_.leading) {
    tree_.plan_id = std::string(64, 'a');
    tree_.custom_metadata["scan_layers"] = true;
    tree_.extras = {"step", "opt_state"};
    tree_.step = 7;
    tree_.item = layout_.item;
    tree_.encoding = encoding;
  }

  CheckpointBuilder& leaf(const std::string& path, DType dtype, const Shape& shape,
                          const Shape& chunk, const Shape& inner) {
    Leaf leaf;
    leaf.name = path;
    leaf.dtype = dtype;
    leaf.shape = shape;
    added_.push_back({leaf, {chunk, chunk, inner}});
    return *this;
  }
  CheckpointBuilder& leaf(const std::string& path, DType dtype, const Shape& shape,
                          const Shape& chunk) {
    return leaf(path, dtype, shape, chunk, chunk);
  }
  TreeSpec& tree() { return tree_; }

  /// Fixes order, values and places.
  CheckpointBuilder& build() {
    std::ranges::sort(added_, {}, [](const auto& item) { return item.first.name; });
    for (const auto& [leaf, grid] : added_) {
      leaves_.push_back(leaf);
      grids_.push_back(grid);
      std::string bytes(packed_bytes(leaf.dtype, leaf.shape.numel()), '\0');
      const unsigned mask = leaf.dtype == DType::boolean ? 1U : 0xffU;
      for (char& byte : bytes) byte = static_cast<char>(random_() & mask);
      values_.push_back(bytes);
    }
    tree_.leaves = &leaves_;
    tree_.grids = &grids_;
    for (std::uint32_t i = 0; i < leaves_.size(); ++i) store_leaf(i);
    return *this;
  }

  /// Writes the step directory.
  void write(const std::string& step) const { write(step, format_.metadata(tree_, *this)); }
  void write(const std::string& step, const std::vector<SideFile>& sides) const {
    for (std::uint32_t file = 0; file < data_.size(); ++file)
      write_text(data_path(step, file), data_[file]);
    for (const SideFile& side : sides) {
      std::string text;
      side.write([&](std::span<const std::byte> bytes) { text += as_text(bytes); });
      write_text(step + "/" + side.path, text);
    }
  }

  std::string data_path(const std::string& step, std::uint32_t file) const {
    return join_path(join_path(step, layout_.item), file_path(file));
  }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  const PerLeaf<Grid>& grids() const { return grids_; }
  const std::string& value(std::size_t leaf) const { return values_[leaf]; }
  std::string& data(std::uint32_t file) { return data_[file]; }

  std::string file_path(std::uint32_t file) const override {
    return layout_.data_file(file, file_count());
  }
  std::uint32_t file_count() const override { return static_cast<std::uint32_t>(data_.size()); }
  Place place(std::uint32_t leaf, const Shape& chunk) const override {
    return places_.at({leaf, std::vector<std::uint64_t>(chunk.begin(), chunk.end())});
  }

 private:
  void store_leaf(std::uint32_t index) {
    const Leaf& leaf = leaves_[index];
    const Grid& grid = grids_[index];
    const PieceForm form = format_.form(leaf, grid, encoding_);
    Shape cells = grid.chunk;
    for (std::size_t d = 0; d < cells.rank(); ++d) cells[d] = grid.chunk[d] / grid.inner[d];
    const std::uint64_t alignment = layout_.alignment_bytes != 0 ? layout_.alignment_bytes : 512;
    for_each_chunk(chunk_counts(leaf.shape, grid.chunk), [&](const Shape& chunk) {
      std::string stored(form.stored_bytes(), '\0');
      std::size_t at = form.head_bytes;
      for_each_chunk(cells, [&](const Shape& cell) {
        Shape origin = cell;
        for (std::size_t d = 0; d < cell.rank(); ++d) {
          origin[d] = chunk[d] * grid.chunk[d] + cell[d] * grid.inner[d];
        }
        std::string box(form.cell_bytes, '\0');
        copy_box(values_[index], leaf.shape, box, grid.inner, origin, size_bits(leaf.dtype) / 8,
                 /*back=*/false);
        stored.replace(at, box.size(), box);
        at += form.cell_step_bytes();
      });
      std::vector<std::byte> scratch(form.scratch_bytes);
      stored.resize(format_.encode(form, {&leaf, &grid, chunk},
                                   std::as_writable_bytes(std::span(stored)), scratch));
      const auto file = static_cast<std::uint32_t>(places_.size() % data_.size());
      std::string& data = data_[file];
      data.resize(round_up(data.size(), alignment), '\0');
      places_[{index, std::vector<std::uint64_t>(chunk.begin(), chunk.end())}] = {file, data.size(),
                                                                                  stored.size()};
      data += stored;
    });
  }

  const Format& format_;
  FileLayout layout_;
  Encoding encoding_;
  std::mt19937 random_{20240607};
  TreeSpec tree_;
  std::vector<std::pair<Leaf, Grid>> added_;
  std::vector<Leaf> leaves_;
  PerLeaf<Grid> grids_;
  std::vector<std::string> values_;
  std::vector<std::string> data_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint64_t>>, Place> places_;
};

}  // namespace hfshard
