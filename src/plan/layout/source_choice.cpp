#include "plan/layout/source_choice.h"

#include <algorithm>

#include "plan/layout/piece_window.h"

namespace hfshard {
namespace {

// Adds the arrays of scales that decoders can't read as they are stored, which is piece by piece.
void add_scales(const Model& model, const Transfer& transfer, const SplitArrays& split,
                std::vector<std::uint32_t>& refused) {
  if (!transfer.decode) return;
  transfer.decode->for_each_tensor([&](std::uint32_t array) {
    if (!model.catalog().tensors[array].is_whole() && !split.has(array)) refused.push_back(array);
  });
}

}  // namespace

SourceChoice choose_source(const Model& model, const Leaf& leaf,
                           const std::vector<const Transfer*>& transfers, const SplitArrays& split,
                           const Limits& limits) {
  SourceChoice out;
  SourcePieces pieces;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) pieces.window.push_back(1);
  for (const Transfer* transfer : transfers) {
    add_scales(model, *transfer, split, out.refused);
    for (const std::uint32_t array : transfer->sources) {
      if (model.catalog().tensors[array].is_whole()) continue;
      const UnpackedForm* const form = find_form(split.unpacked, array);
      if (form != nullptr && form->row_major) continue;
      const Grid grid = form != nullptr ? form->grid : model.catalog().grid_of(array);
      const std::uint64_t reader =
          form != nullptr ? 0 : model.source().scratch_bytes(array, PieceSteps::any);
      const std::uint64_t scratch =
          piece_bands(*transfer, leaf.dtype, grid, reader, limits).scratch_bytes();
      if (split.has(array)) {
        out.split_scratch_bytes = std::max(out.split_scratch_bytes, scratch);
        continue;
      }
      const auto window = piece_window(leaf, *transfer, grid);
      if (!window) {
        out.refused.push_back(array);
        continue;
      }
      out.taken.push_back(array);
      pieces.window = join_windows(leaf, pieces.window, *window);
      pieces.scratch_bytes = std::max(pieces.scratch_bytes, scratch);
    }
  }
  if (!out.taken.empty()) out.pieces = pieces;
  return out;
}

bool add_refused(const SourceChoice& choice, std::vector<std::uint32_t>& split) {
  bool added = false;
  for (const std::uint32_t array : choice.refused) {
    const auto at = std::ranges::lower_bound(split, array);
    if (at != split.end() && *at == array) continue;
    split.insert(at, array);
    added = true;
  }
  return added;
}

}  // namespace hfshard
