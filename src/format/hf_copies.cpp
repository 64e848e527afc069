#include "format/hf_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/store/open_files.h"

#include "hfshard/error.h"

namespace hfshard::format {
namespace {

constexpr std::size_t kCompareBytes = std::size_t{1} << 20;

// The copies of one tensor, one per file.
using Copies = std::span<const TensorInfo>;

class CopyChooser {
 public:
  CopyChooser(const Catalog& catalog, const HfIndex* index, const WeightFiles& kind)
      : catalog_(catalog), index_(index), kind_(kind) {}

  const TensorInfo& choose(Copies copies) {
    if (index_ != nullptr) {
      const TensorInfo* listed = listed_copy(copies);
      if (listed == nullptr) return copies.front();  // check_against_index refuses it
      by_index_.push_back(listed->name);
      return *listed;
    }
    // PyTorch files can scatter a tensor's elements, so hfshard doesn't compare them.
    if (kind_.kind != kSafetensorsFiles.kind) refuse(copies, "no index tells which one to read");
    for (const TensorInfo& other : copies.subspan(1)) {
      if (!are_same(copies.front(), other)) refuse(copies, "the copies differ");
    }
    compared_.push_back(copies.front().name);
    return copies.front();
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    if (!by_index_.empty()) {
      out.push_back(fmt::format(
          "{}: hfshard read the copy in the file that the index names, and left out the other",
          in_two_files(by_index_)));
    }
    if (!compared_.empty()) {
      out.push_back(fmt::format("{}, with the same bytes: hfshard read the first copy",
                                in_two_files(compared_)));
    }
    return out;
  }

 private:
  static std::string in_two_files(const std::vector<std::string>& names) {
    return names.size() == 1 ? fmt::format("the tensor {} is in two files", quote(names.front()))
                             : fmt::format("{} tensors are in two files ({})", names.size(),
                                           quoted_list(names, 3));
  }

  // The copy in the file that the index names.
  const TensorInfo* listed_copy(Copies copies) const {
    const auto listed =
        std::ranges::lower_bound(index_->tensors, copies.front().name, {},
                                 [](const auto& item) -> const std::string& { return item.first; });
    if (listed == index_->tensors.end() || listed->first != copies.front().name) return nullptr;
    const std::string& wanted = index_->files[listed->second];
    const auto found = std::ranges::find_if(
        copies, [&](const TensorInfo& copy) { return catalog_.files[copy.file].name == wanted; });
    return found == copies.end() ? nullptr : &*found;
  }

  bool are_same(const TensorInfo& a, const TensorInfo& b) {
    if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
    const auto left = files_.open(a.file, catalog_.files[a.file].path);
    const auto right = files_.open(b.file, catalog_.files[b.file].path);
    left_.resize(kCompareBytes);
    right_.resize(kCompareBytes);
    for (std::uint64_t done = 0; done < a.size_bytes;) {
      const auto step =
          static_cast<std::size_t>(std::min<std::uint64_t>(a.size_bytes - done, kCompareBytes));
      left->read_at(a.begin_bytes + done, std::span(left_).first(step));
      right->read_at(b.begin_bytes + done, std::span(right_).first(step));
      if (std::memcmp(left_.data(), right_.data(), step) != 0) return false;
      done += step;
    }
    return true;
  }

  [[noreturn]] void refuse(Copies copies, std::string_view why) const {
    Error error(ErrorCode::bad_input, fmt::format("the tensor is in two files, also in {}, and {}",
                                                  quote(catalog_.files[copies[1].file].name), why));
    error.in_file(catalog_.files[copies[0].file].path.text()).in_tensor(copies[0].name);
    if ((catalog_.directory / kind_.index()).is_file()) {
      throw error.hint(
          fmt::format("leave out --ignore-index; {} tells which file to read", kind_.index()));
    }
    std::string hint =
        fmt::format("add {}, whose weight_map tells which file to read", kind_.index());
    const std::string& first = catalog_.files[copies[0].file].name;
    const std::string& other = catalog_.files[copies[1].file].name;
    if (files_with(other) != files_with(first)) {
      hint = fmt::format("pass --exclude {} or {} to leave files out, or {}",
                         shell_word(files_with(other)), shell_word(files_with(first)), hint);
    }
    throw error.hint(hint);
  }

  // Returns a file's name, or the pattern for all parts of its checkpoint.
  std::string files_with(const std::string& name) const {
    const std::size_t parts = name.find("-of-");
    if (parts == std::string::npos) return name;
    const std::size_t number = name.rfind('-', parts - 1);
    return number == std::string::npos ? name : kind_.beginning(name.substr(0, number + 1));
  }

  const Catalog& catalog_;
  const HfIndex* index_;
  const WeightFiles& kind_;
  OpenFiles files_;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
  std::vector<std::string> by_index_;
  std::vector<std::string> compared_;
};

}  // namespace

void sort_tensors(Catalog& catalog, const HfIndex* index, const WeightFiles& kind) {
  std::vector<TensorInfo>& all = catalog.tensors;
  std::ranges::sort(all, [](const TensorInfo& a, const TensorInfo& b) {
    return a.name != b.name ? a.name < b.name : a.file < b.file;
  });
  const auto same_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; };
  if (std::adjacent_find(all.begin(), all.end(), same_name) == all.end()) return;
  CopyChooser chooser(catalog, index, kind);
  std::vector<TensorInfo> kept;
  kept.reserve(all.size());
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && same_name(all[begin], all[end])) ++end;
    const Copies copies = Copies(all).subspan(begin, end - begin);
    kept.push_back(copies.size() == 1 ? copies.front() : chooser.choose(copies));
    begin = end;
  }
  std::vector<std::string> notes = chooser.notes();
  all = std::move(kept);
  std::ranges::move(notes, std::back_inserter(catalog.notes));
}

}  // namespace hfshard::format
