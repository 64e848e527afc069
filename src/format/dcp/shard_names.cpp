#include "format/dcp/shard_names.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

constexpr std::string_view kShard = "shard-";
constexpr std::string_view kModel = "-model-";
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kEnd = ".safetensors";

}  // namespace

bool is_rank_shard(std::string_view name) {
  return glob_match("shard-[0-9][0-9][0-9][0-9][0-9]-model-*-of-*.safetensors", name);
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  if (!is_rank_shard(name)) return std::nullopt;
  name.remove_prefix(kShard.size());
  name.remove_suffix(kEnd.size());
  const std::size_t model = name.find(kModel);
  const std::size_t of = name.rfind(kOf);
  const std::size_t file = model + kModel.size();
  if (of < file) return std::nullopt;
  const auto rank = parse_whole(name.substr(0, model));
  const auto number = parse_whole(name.substr(file, of - file));
  const auto files = parse_whole(name.substr(of + kOf.size()));
  if (!rank || !number || !files) return std::nullopt;
  return ShardName{*rank, *number, *files};
}

std::string to_string(const ShardName& shard) {
  return fmt::format("{}{:05}{}{:05}{}{:05}{}", kShard, shard.rank, kModel, shard.file, kOf,
                     shard.files, kEnd);
}

ShardNames::ShardNames(const StorePath& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) add(directory, name);
  std::uint64_t expected = 1;
  for (const auto& [rank, files] : files_of_) {
    if (rank > expected) {
      throw Error(ErrorCode::not_found, fmt::format("shard {} of at least {} is missing", expected,
                                                    files_of_.rbegin()->first))
          .in_file((directory / to_string({expected, *files.begin(), files_})).text());
    }
    expected = rank + 1;
  }
}

void ShardNames::add(const StorePath& directory, const std::string& name) {
  const auto shard = parse_shard_name(name);
  if (!shard) return;
  if (files_ != 0 && shard->files != files_) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the shards belong to two checkpoints: their names say {} and {} files",
                            files_, shard->files))
        .in_file((directory / name).text())
        .hint("torch keeps the files of an earlier save in the same directory; move them away");
  }
  files_ = shard->files;
  files_of_[shard->rank].insert(shard->file);
}

std::optional<std::string> ShardNames::missing_among(const std::vector<ShardName>& shards) const {
  const auto [first, last] = std::ranges::minmax(shards, {}, &ShardName::rank);
  for (std::uint64_t rank = 1; rank < last.rank; ++rank) {
    const auto files = files_of_.find(rank);
    if (files != files_of_.end() && !files->second.contains(first.file))
      return to_string({rank, first.file, files_});
  }
  return std::nullopt;
}

std::vector<std::string> ShardNames::notes() const {
  std::vector<std::string> out{
      "these shards don't record the tensors' sizes; if the last ones are missing, the tensors "
      "seem smaller"};
  if (files_of_.empty()) return out;
  std::set<std::uint64_t> all;
  for (const auto& [rank, files] : files_of_) all.insert(files.begin(), files.end());
  const auto& [last, has] = *files_of_.rbegin();
  const auto of_last = std::ranges::find_if(
      all, [&of_rank = has](std::uint64_t file) { return !of_rank.contains(file); });
  if (of_last != all.end()) {
    out.push_back(fmt::format(
        "{} is missing, which other ranks have: if rank {} had it, its data are missing",
        quote(to_string({last, *of_last, files_})), last));
  }
  std::uint64_t none = 1;
  while (all.contains(none)) ++none;
  if (none <= files_) {
    out.push_back(fmt::format(
        "{} is missing for every rank: the tensors of file {} of {} were not saved, or are lost",
        quote(to_string({1, none, files_})), none, files_));
  }
  return out;
}

}  // namespace hfshard::format::dcp
