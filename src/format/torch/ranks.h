#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/format.h"

namespace hfshard::format::torch {

/// The files of one model from several ranks, one each.
struct RankFiles {
  std::vector<std::string> names;  ///< by rank
  /// `consolidated.00.pth`, ... If false, they are verl's, with DTensors.
  bool is_meta = false;
};

/// Returns whether a file is named like one of these.
bool is_rank_file(std::string_view name);
/// Returns whether a file is named like one of Meta's, `consolidated.NN.pth`.
bool is_meta_file(std::string_view name);
/// Finds `model_world_size_N_rank_I.pt` or `consolidated.NN.pth` among the entries of a directory.
/// Empty if there are no such files. Throws: not_found (a rank is missing), bad_input (of two
/// runs).
std::optional<RankFiles> find_rank_files(const StorePath& directory,
                                         const std::vector<std::string>& entries);

/// Opens them as one model. Tensors in several parts are joined when they are read. The config is
/// next to them, or in `huggingface`, where verl puts it. Throws: as read_torch_file, join_ranks
/// and join_shards; not_found (a tensor is missing in one file). `choice`: its `without` and
/// `root`.
Catalog open_rank_files(const StorePath& directory, const std::vector<std::string>& entries,
                        const RankFiles& files, const Choice& choice);

}  // namespace hfshard::format::torch
