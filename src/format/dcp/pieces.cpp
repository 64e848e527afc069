#include "format/dcp/pieces.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Boxes that aren't a grid are compared in pairs, so their number is limited.
constexpr std::size_t kMaxIrregular = 4096;

std::string text_of(const StoredBox& box) {
  return fmt::format("{} at {}", to_string(box.extent), to_string(box.begin));
}

bool meet(const StoredBox& a, const StoredBox& b) {
  for (std::size_t d = 0; d < a.begin.rank(); ++d) {
    if (a.begin[d] >= b.begin[d] + b.extent[d] || b.begin[d] >= a.begin[d] + a.extent[d])
      return false;
  }
  return true;
}

class PieceCut {
 public:
  PieceCut(const StoredTensor& tensor, const std::string& file) : tensor_(tensor), file_(file) {}

  PieceBoxes run() {
    PieceBoxes out;
    const std::size_t rank = tensor_.shape.rank();
    check_volume();
    for (std::size_t d = 0; d < rank; ++d) edges_.push_back(edges_of(d));
    is_grid_ = is_grid();
    if (!is_grid_) check_apart();
    for (std::size_t d = 0; d < rank; ++d) out.chunk.push_back(step_of(d));
    out.counts = chunk_counts(tensor_.shape, out.chunk);
    sort_boxes(out);
    return out;
  }

 private:
  [[noreturn]] void fail(std::string sentence, ErrorCode code = ErrorCode::corrupt) const {
    throw Error(code, std::move(sentence)).in_file(file_).in_tensor(tensor_.name);
  }

  // Boxes fill the tensor if they don't overlap and have as many elements.
  void check_volume() const {
    const std::uint64_t all = tensor_.shape.numel();
    std::optional<std::uint64_t> sum = 0;
    for (const StoredBox& box : tensor_.boxes) {
      if (sum) sum = checked_add(*sum, box.extent.numel());
    }
    if (sum && *sum == all) {
      for (std::size_t i = 1; i < tensor_.boxes.size(); ++i) {
        if (tensor_.boxes[i - 1].begin == tensor_.boxes[i].begin)
          fail(fmt::format("two chunks overlap: {}, and {}", text_of(tensor_.boxes[i - 1]),
                           text_of(tensor_.boxes[i])));
      }
      return;
    }
    for (std::size_t i = 1; i < std::min(tensor_.boxes.size(), kMaxIrregular); ++i) {
      if (meet(tensor_.boxes[i - 1], tensor_.boxes[i]))
        fail(fmt::format("two chunks overlap: {}, and {}", text_of(tensor_.boxes[i - 1]),
                         text_of(tensor_.boxes[i])));
    }
    fail(fmt::format("the chunks don't cover the tensor: they hold {} of {} elements",
                     sum.value_or(0), all));
  }

  // Returns the starts of boxes along an axis, and the axis's end.
  std::vector<std::uint64_t> edges_of(std::size_t axis) const {
    std::vector<std::uint64_t> out;
    out.reserve(tensor_.boxes.size() + 1);
    for (const StoredBox& box : tensor_.boxes) out.push_back(box.begin[axis]);
    out.push_back(tensor_.shape[axis]);
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // Returns whether each box spans from one edge to the next on every axis. Then they fill the
  // grid, since check_volume has counted their elements.
  bool is_grid() const {
    return std::ranges::all_of(tensor_.boxes, [&](const StoredBox& box) {
      for (std::size_t d = 0; d < edges_.size(); ++d) {
        const auto next = std::ranges::upper_bound(edges_[d], box.begin[d]);
        if (next == edges_[d].end() || *next != box.begin[d] + box.extent[d]) return false;
      }
      return true;
    });
  }

  void check_apart() const {
    const std::vector<StoredBox>& boxes = tensor_.boxes;
    if (boxes.size() > kMaxIrregular)
      fail(fmt::format("{} chunks that don't form a grid", boxes.size()), ErrorCode::limit);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (!meet(boxes[i], boxes[k])) continue;
        fail(fmt::format("two chunks overlap: {}, and {}", text_of(boxes[k]), text_of(boxes[i])));
      }
    }
  }

  // Returns the smallest step whose multiples are all edges that no box crosses.
  std::uint64_t step_of(std::size_t axis) const {
    std::vector<std::uint64_t> planes = edges_[axis];
    for (const StoredBox& box : is_grid_ ? std::vector<StoredBox>() : tensor_.boxes) {
      const std::uint64_t end = box.begin[axis] + box.extent[axis];
      planes.erase(std::ranges::upper_bound(planes, box.begin[axis]),
                   std::ranges::lower_bound(planes, end));
    }
    const std::uint64_t length = tensor_.shape[axis];
    for (const std::uint64_t step : planes) {
      if (step == 0) continue;
      std::uint64_t at = step;
      while (at < length && std::ranges::binary_search(planes, at)) at += step;
      if (at >= length) return step;
    }
    return std::max<std::uint64_t>(length, 1);
  }

  void sort_boxes(PieceBoxes& out) const {
    const auto piece_of = [&](std::uint32_t box) {
      std::uint64_t linear = 0;
      for (std::size_t d = 0; d < out.counts.rank(); ++d)
        linear = linear * out.counts[d] + tensor_.boxes[box].begin[d] / out.chunk[d];
      return linear;
    };
    out.boxes.resize(tensor_.boxes.size());
    std::iota(out.boxes.begin(), out.boxes.end(), 0U);
    std::ranges::stable_sort(out.boxes, {}, piece_of);
    // Boxes fill the tensor, so every piece has one.
    for (std::uint32_t i = 0; i < out.boxes.size(); ++i) {
      if (out.first.size() == piece_of(out.boxes[i])) out.first.push_back(i);
    }
    out.first.push_back(static_cast<std::uint32_t>(out.boxes.size()));
    HFSHARD_CHECK(out.first.size() == out.counts.numel() + 1);
  }

  const StoredTensor& tensor_;
  const std::string& file_;
  std::vector<std::vector<std::uint64_t>> edges_;
  bool is_grid_ = false;
};

}  // namespace

std::uint64_t most_packed_at_once(const StoredTensor& tensor, const PieceBoxes& pieces,
                                  const std::vector<std::uint8_t>& order) {
  std::uint64_t most = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;  // first and last place in the piece
  for (std::size_t piece = 0; piece + 1 < pieces.first.size(); ++piece) {
    spans.clear();
    for (std::uint32_t i = pieces.first[piece]; i < pieces.first[piece + 1]; ++i) {
      const StoredBox& box = tensor.boxes[pieces.boxes[i]];
      if (!box.place.zstd) continue;
      std::pair<std::uint64_t, std::uint64_t> span;
      for (const std::uint8_t axis : order) {
        const std::uint64_t extent = pieces.chunk[axis];
        const std::uint64_t begin = box.begin[axis] % extent;
        span.first = span.first * extent + begin;
        span.second = span.second * extent + begin + box.extent[axis] - 1;
      }
      spans.push_back(span);
    }
    std::ranges::sort(spans);
    std::vector<std::uint64_t> ends;
    for (const auto& [first, last] : spans) {
      std::erase_if(ends, [&, begin = first](std::uint64_t end) { return end < begin; });
      ends.push_back(last);
      most = std::max<std::uint64_t>(most, ends.size());
    }
  }
  return most;
}

PieceBoxes cut_pieces(const StoredTensor& tensor, const std::string& file) {
  try {
    return PieceCut(tensor, file).run();
  } catch (Error& error) {  // a shape's overflow names no file
    throw error.in_file(file).in_tensor(tensor.name);
  }
}

}  // namespace hfshard::format::dcp
