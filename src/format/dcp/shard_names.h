#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"

namespace hfshard::format::dcp {

/// A file of torch's HuggingFace writer with the parts of one rank:
/// "shard-00001-model-00001-of-00001.safetensors". Source: pytorch/pytorch
/// torch/distributed/checkpoint/_hf_utils.py _gen_file_name.
bool is_rank_shard(std::string_view name);

/// What such a name says. Numbers begin with 1.
struct ShardName {
  std::uint64_t rank = 0;
  std::uint64_t file = 0;  ///< which of the model's files the tensors belong to
  std::uint64_t files = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name);
std::string to_string(const ShardName& shard);

/// The shards of a directory. A rank writes one of each of the model's files that it has a part of,
/// and a file of which nothing was saved has none, so that not every number must be there.
class ShardNames {
 public:
  /// Throws: not_found (a rank before the last one has none), bad_input (of two checkpoints).
  ShardNames(const StorePath& directory, const std::vector<std::string>& names);

  /// Of a tensor that lies in these shards with a hole between them: the first one that is not
  /// there.
  std::optional<std::string> missing_among(const std::vector<ShardName>& shards) const;

  /// What would not be seen if it were missing, with the names of what may be.
  std::vector<std::string> notes() const;

 private:
  void add(const StorePath& directory, const std::string& name);

  std::map<std::uint64_t, std::set<std::uint64_t>> files_of_;  // by rank
  std::uint64_t files_ = 0;
};

}  // namespace hfshard::format::dcp
