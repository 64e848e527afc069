#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"

namespace hfshard::format::dcp {

/// Returns whether a name is that of torch's Hugging Face writer for the parts of one rank:
/// "shard-00001-model-00001-of-00001.safetensors". Source: pytorch/pytorch
/// torch/distributed/checkpoint/_hf_utils.py _gen_file_name.
bool is_rank_shard(std::string_view name);

/// The numbers in such a name. They begin with 1.
struct ShardName {
  std::uint64_t rank = 0;
  std::uint64_t file = 0;  ///< the model's file with the tensors
  std::uint64_t files = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name);
std::string to_string(const ShardName& shard);

/// The shards of a directory. A rank writes one for each of the model's files that it has a part
/// of. A file without saved parts has no shards, so numbers can be missing.
class ShardNames {
 public:
  /// Throws: not_found (a gap in the ranks), bad_input (of two checkpoints).
  ShardNames(const StorePath& directory, const std::vector<std::string>& names);

  /// Returns the first missing shard of a tensor that has a hole between these shards.
  std::optional<std::string> missing_among(const std::vector<ShardName>& shards) const;

  /// Returns notes on shards that could be missing unnoticed, with their possible names.
  std::vector<std::string> notes() const;

 private:
  void add(const StorePath& directory, const std::string& name);

  std::map<std::uint64_t, std::set<std::uint64_t>> files_of_;  // by rank
  std::uint64_t files_ = 0;
};

}  // namespace hfshard::format::dcp
