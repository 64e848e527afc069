#include "format/torch/ranks.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "format/hf_open.h"
#include "format/hf_repo.h"
#include "format/torch/assembled.h"
#include "format/torch/join.h"
#include "format/torch/mesh.h"
#include "format/torch/torch_file.h"
#include "format/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

constexpr std::string_view kWorld = "model_world_size_";
constexpr std::string_view kRank = "_rank_";
constexpr std::string_view kRankEnd = ".pt";
constexpr std::string_view kMeta = "consolidated.";
constexpr std::string_view kMetaEnd = ".pth";
constexpr const char* kConfigBelow = "huggingface";
constexpr std::uint64_t kMostRanks = 65536;

// The numbers in "model_world_size_8_rank_3.pt": 8 and 3.
struct RankName {
  std::uint64_t ranks = 0;
  std::uint64_t rank = 0;
};
std::optional<RankName> parse_rank(std::string_view name) {
  if (!name.starts_with(kWorld) || !name.ends_with(kRankEnd)) return std::nullopt;
  name.remove_prefix(kWorld.size());
  name.remove_suffix(kRankEnd.size());
  const std::size_t middle = name.find(kRank);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto ranks = parse_whole(name.substr(0, middle));
  const auto rank = parse_whole(name.substr(middle + kRank.size()));
  if (!ranks || !rank || *ranks > kMostRanks) return std::nullopt;
  return RankName{*ranks, *rank};
}

// Returns the number in "consolidated.03.pth": 3.
std::optional<std::uint64_t> parse_meta(std::string_view name) {
  if (!name.starts_with(kMeta) || !name.ends_with(kMetaEnd)) return std::nullopt;
  if (name.size() <= kMeta.size() + kMetaEnd.size()) return std::nullopt;
  return parse_whole(name.substr(kMeta.size(), name.size() - kMeta.size() - kMetaEnd.size()));
}

RankFiles complete(const StorePath& directory, const std::map<std::uint64_t, std::string>& found,
                   std::uint64_t count, bool is_meta) {
  RankFiles out{{}, is_meta};
  for (std::uint64_t rank = 0; rank < count; ++rank) {
    const auto each = found.find(rank);
    if (each == found.end()) {
      throw Error(
          ErrorCode::not_found,
          fmt::format("the file of rank {} is missing; the directory has {}", rank, found.size()))
          .in_file((directory /
                    (is_meta ? fmt::format("{}{:02}{}", kMeta, rank, kMetaEnd)
                             : fmt::format("{}{}{}{}{}", kWorld, count, kRank, rank, kRankEnd)))
                       .text())
          .hint("copy the files of all ranks into one directory");
    }
    out.names.push_back(each->second);
  }
  return out;
}

// Returns the tensor with a name from each of the files.
Parts parts_of(const std::vector<TorchFile>& files, const std::vector<CatalogFile>& names,
               const std::string& tensor) {
  Parts out;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto found = std::ranges::lower_bound(files[i].tensors, tensor, {}, &StoredView::name);
    if (found == files[i].tensors.end() || found->name != tensor) {
      throw Error(ErrorCode::not_found, "the tensor is missing in the file of one rank")
          .in_file(names[i].path.text())
          .in_tensor(tensor);
    }
    out.push_back(&*found);
  }
  return out;
}

void check_same_names(const std::vector<TorchFile>& files, const std::vector<CatalogFile>& names) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    for (const StoredView& view : files[i].tensors) {
      if (std::ranges::binary_search(files[0].tensors, view.name, {}, &StoredView::name)) continue;
      throw Error(ErrorCode::not_found, "the tensor is missing in the file of the first rank")
          .in_file(names[i].path.text())
          .in_tensor(view.name);
    }
  }
}

// Returns the model's width, which is the only dim of norms.
std::uint64_t width_of(const TorchFile& file) {
  for (const StoredView& view : file.tensors) {
    if (glob_match("*norm.weight", view.name) && view.units.rank() == 1) return view.units[0];
  }
  return 0;
}

// Tensors that are one run of bytes stay in place. Others are assembled.
class RankCatalog {
 public:
  RankCatalog(const StorePath& directory, const RankFiles& set, const Choice& choice)
      : is_meta_(set.is_meta) {
    catalog_.location = directory.text();
    catalog_.directory = directory;
    for (const std::string& name : set.names) {
      const StorePath path = directory / name;
      TorchFile file = read_torch_file(path, choice);
      catalog_.files.push_back({path, name, file.identity.size_bytes, file.identity.version,
                                file.sha256, file.identity.inodes});
      catalog_.unreadable = file.unreadable;  // each file has the same names
      files_.push_back(std::move(file));
    }
    assembly_.text = fmt::format("{} (joined)", set.names.front());
    assembly_.files = catalog_.files;
  }

  Catalog run() {
    check_same_names(files_, catalog_.files);
    const auto number = static_cast<std::uint32_t>(catalog_.files.size());
    const std::uint64_t width = width_of(files_[0]);
    RankMeshes meshes;
    if (!is_meta_) for_each([&](const StoredView&, const Parts& parts) { meshes.narrow(parts); });
    for_each([&](const StoredView& first, const Parts& parts) {
      add(first, is_meta_ ? join_shards(parts, width) : join_ranks(parts, meshes), number);
    });
    if (!assembly_.arrays.empty()) catalog_.files.push_back(assembled_file(std::move(assembly_)));
    return std::move(catalog_);
  }

 private:
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const StoredView& first : files_[0].tensors) {
      try {
        visit(first, parts_of(files_, catalog_.files, first.name));
      } catch (Error& error) {  // only here is the tensor known
        throw error.in_file(catalog_.location).in_tensor(first.name);
      }
    }
  }

  void add(const StoredView& first, Joined joined, std::uint32_t number) {
    TensorInfo info;
    info.name = first.name;
    info.dtype = first.dtype;
    info.shape = from_units(first.dtype, joined.units);
    StoredView whole;
    whole.dtype = first.dtype;
    whole.units = joined.units;
    info.size_bytes = whole.size_bytes();
    const bool is_one = joined.boxes.size() == 1 && joined.boxes[0].extent == joined.units;
    if (joined.boxes.empty()) {
      info.begin_bytes = first.begin_bytes;  // no elements
    } else if (is_one && is_packed(joined.units, joined.boxes[0].strides)) {
      info.file = joined.boxes[0].file;
      info.begin_bytes = joined.boxes[0].begin_bytes;
    } else {
      info.file = number;
      info.begin_bytes = assembly_.add(
          {first.name, joined.units, unit_bytes(first.dtype), 0, std::move(joined.boxes)});
    }
    catalog_.tensors.push_back(std::move(info));
  }

  bool is_meta_;
  Catalog catalog_;
  std::vector<TorchFile> files_;
  Assembly assembly_;
};

}  // namespace

bool is_meta_file(std::string_view name) { return parse_meta(name).has_value(); }

bool is_rank_file(std::string_view name) { return parse_rank(name) || is_meta_file(name); }

std::optional<RankFiles> find_rank_files(const StorePath& directory,
                                         const std::vector<std::string>& entries) {
  std::map<std::uint64_t, std::string> ranks;
  std::map<std::uint64_t, std::string> shards;
  std::uint64_t count = 0;
  for (const std::string& name : entries) {
    if (const auto shard = parse_meta(name)) shards.emplace(*shard, name);
    const auto rank = parse_rank(name);
    if (!rank) continue;
    if (count != 0 && rank->ranks != count) {
      throw Error(
          ErrorCode::bad_input,
          fmt::format("the directory has files of {} ranks and of {} ranks", count, rank->ranks))
          .in_file((directory / name).text())
          .hint("move the files of one run away");
    }
    count = rank->ranks;
    ranks.emplace(rank->rank, name);
  }
  if (!ranks.empty()) return complete(directory, ranks, count, false);
  if (shards.empty() || shards.rbegin()->first >= kMostRanks) return std::nullopt;
  return complete(directory, shards, shards.rbegin()->first + 1, true);
}

Catalog open_rank_files(const StorePath& directory, const std::vector<std::string>& entries,
                        const RankFiles& files, const Choice& choice) {
  Catalog out = RankCatalog(directory, files, choice).run();
  const StorePath below = directory / kConfigBelow;
  const bool is_below =
      !std::ranges::binary_search(entries, "config.json") && (below / "config.json").is_file();
  if (is_below) out.directory = below;
  out.config_text = read_hf_config(out.directory);
  out.side_files = find_side_files(out.directory, is_below ? below.list() : entries);
  return out;
}

}  // namespace hfshard::format::torch
