#include "format/torch/assembled.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/digest.h"
#include "format/torch/strided_copy.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

constexpr const char* kName = "assembled";

// Collects the state that changes when one of the files does.
class Versions {
 public:
  void add(const CatalogFile& file, const FileIdentity& identity) {
    text_ += fmt::format("{} {} {}\n", file.name, identity.size_bytes, identity.version);
    std::ranges::copy(identity.inodes, std::back_inserter(inodes_));
  }
  FileIdentity of(const Assembly& assembly) const {
    return {assembly.arrays.back().end_bytes(), sha256_hex(text_), inodes_};
  }

 private:
  std::string text_;
  std::vector<InodeState> inodes_;
};

FileIdentity identity_of(const Assembly& assembly) {
  Versions versions;
  for (const CatalogFile& file : assembly.files) versions.add(file, file.identity());
  return versions.of(assembly);
}

// Returns the identity for the files as they are now.
FileIdentity identity_of(const Assembly& assembly,
                         const std::vector<std::unique_ptr<SourceFile>>& files) {
  Versions versions;
  for (std::size_t i = 0; i < files.size(); ++i)
    versions.add(assembly.files[i], files[i]->identity());
  return versions.of(assembly);
}

std::string digest_of(const Assembly& assembly) {
  std::string text;
  for (const CatalogFile& file : assembly.files)
    text += file.name + " " + file.header_sha256 + "\n";
  for (const AssembledArray& array : assembly.arrays) {
    text += fmt::format("{} {} {}\n", array.name, to_string(array.units), array.begin_bytes);
    for (const AssembledBox& box : array.boxes) {
      text += fmt::format("{} {} {} {} {}\n", box.file, box.begin_bytes, to_string(box.begin),
                          to_string(box.extent), to_string(box.strides));
    }
  }
  return sha256_hex(text);
}

// Reads any range of one array's bytes. The bytes of a unit are the last axis.
class ArrayCopy {
 public:
  ArrayCopy(const AssembledArray& array, const std::vector<std::unique_ptr<SourceFile>>& files)
      : array_(array), files_(files), extent_(array.units.begin(), array.units.end()) {
    extent_.push_back(array.unit_bytes);
    below_.assign(extent_.size(), 1);
    for (std::size_t k = extent_.size() - 1; k-- > 0;) below_[k] = below_[k + 1] * extent_[k + 1];
    at_.assign(extent_.size(), 0);
  }

  // `begin` is in bytes of the array. `out` isn't empty.
  void read(std::uint64_t begin, std::span<std::byte> out) { split(0, begin, out); }

 private:
  // Cuts a range into boxes: the rest of a step of the axis, whole steps, the front of another
  // step.
  void split(std::size_t axis, std::uint64_t begin, std::span<std::byte> out) {
    while (!out.empty()) {
      const std::uint64_t step = below_[axis];
      at_[axis] = begin / step;
      const std::uint64_t into = begin % step;
      std::uint64_t size = std::min<std::uint64_t>(step - into, out.size());
      if (into == 0 && out.size() >= step) {
        const std::uint64_t count = out.size() / step;
        size = count * step;
        copy(axis, count, out.first(size));
      } else {
        split(axis + 1, into, out.first(size));
      }
      begin += size;
      out = out.subspan(size);
    }
  }

  // Copies a box of the array. Axes before `axis` have one place, `axis` has `count`, and those
  // after it are whole.
  void copy(std::size_t axis, std::uint64_t count, std::span<std::byte> out) {
    for (const AssembledBox& box : array_.boxes) {
      Meeting found{box.begin_bytes, 0, {}};
      std::size_t k = 0;
      while (k < extent_.size() && meet(box, k, axis, count, found)) ++k;
      if (k < extent_.size()) continue;
      const SourceFile& file = *files_[box.file];
      copy_strided(file, file.is_far(), found.from, std::move(found.axes), out.subspan(found.to));
    }
  }

  // The part of an assembled box that is in the copied box.
  struct Meeting {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::vector<CopyAxis> axes;
  };
  // Returns whether they meet along one axis.
  bool meet(const AssembledBox& box, std::size_t k, std::size_t axis, std::uint64_t count,
            Meeting& found) const {
    const bool is_unit = k + 1 == extent_.size();
    const std::uint64_t first = is_unit ? 0 : box.begin[k];
    const std::uint64_t last = is_unit ? extent_[k] : first + box.extent[k];
    const std::uint64_t step = is_unit ? 1 : box.strides[k] * array_.unit_bytes;
    const std::uint64_t wanted = k <= axis ? at_[k] : 0;
    const std::uint64_t length = k < axis ? 1 : k == axis ? count : extent_[k];
    const std::uint64_t begin = std::max(first, wanted);
    const std::uint64_t end = std::min(last, wanted + length);
    if (begin >= end) return false;
    found.from += (begin - first) * step;
    if (k >= axis) found.to += (begin - wanted) * below_[k];
    found.axes.push_back({end - begin, step, below_[k]});
    return true;
  }

  const AssembledArray& array_;
  const std::vector<std::unique_ptr<SourceFile>>& files_;
  std::vector<std::uint64_t> extent_;
  std::vector<std::uint64_t> below_;  // bytes of one step
  std::vector<std::uint64_t> at_;     // of the copied box
};

class AssembledSource final : public SourceFile {
 public:
  AssembledSource(std::shared_ptr<const Assembly> assembly,
                  std::vector<std::unique_ptr<SourceFile>> files)
      : assembly_(std::move(assembly)),
        files_(std::move(files)),
        identity_(torch::identity_of(*assembly_, files_)) {}

  std::uint64_t size_bytes() const override { return identity_.size_bytes; }
  const std::string& name() const override { return assembly_->text; }
  FileIdentity identity() const override { return identity_; }
  bool takes_hints() const noexcept override { return false; }
  bool is_far() const noexcept override { return false; }  // hfshard doesn't read ahead here
  void check_unchanged() const override {
    for (const auto& file : files_) file->check_unchanged();
  }

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!in_range(offset, out.size(), size_bytes())) {
      throw Error(ErrorCode::corrupt, "the tensors end before this range")
          .in_file(name())
          .at({offset, offset + out.size()}, size_bytes());
    }
    const auto& arrays = assembly_->arrays;
    auto array = std::ranges::upper_bound(arrays, offset, {}, &AssembledArray::begin_bytes);
    for (--array; !out.empty(); ++array) {
      const std::uint64_t size = std::min<std::uint64_t>(out.size(), array->end_bytes() - offset);
      if (size == 0) continue;
      try {
        ArrayCopy(*array, files_).read(offset - array->begin_bytes, out.first(size));
      } catch (Error& error) {  // only here is the tensor known
        throw error.in_tensor(array->name);
      }
      offset += size;
      out = out.subspan(size);
    }
  }

 private:
  std::shared_ptr<const Assembly> assembly_;
  std::vector<std::unique_ptr<SourceFile>> files_;
  FileIdentity identity_;
};

// A store with the assembled file.
class AssembledStore final : public Store {
 public:
  explicit AssembledStore(std::shared_ptr<const Assembly> assembly)
      : assembly_(std::move(assembly)) {}

  std::string text(const std::string& /*name*/) const override { return assembly_->text; }
  std::vector<std::string> list(const std::string& /*name*/) const override { return {}; }
  std::optional<StoreEntry> find(const std::string& /*name*/) const override {
    Versions versions;
    for (const CatalogFile& file : assembly_->files) {
      const auto entry = file.path.find();
      if (!entry) return std::nullopt;
      versions.add(file, entry->identity);
    }
    return StoreEntry{FileKind::regular, versions.of(*assembly_)};
  }
  std::unique_ptr<SourceFile> open(const std::string& /*name*/) const override {
    return opened([](const StorePath& path) { return path.open(); });
  }
  std::unique_ptr<SourceFile> open_data(const std::string& /*name*/, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> behind) const override {
    // Runs are short, and the page cache keeps the bytes between them.
    return opened([&](const StorePath& path) { return path.open_data(IoMode::buffered, behind); });
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override {
    return std::nullopt;
  }
  bool is_far(const std::string& /*name*/) const override { return false; }

 private:
  template <typename Open>
  std::unique_ptr<SourceFile> opened(const Open& open) const {
    std::vector<std::unique_ptr<SourceFile>> files;
    files.reserve(assembly_->files.size());
    for (const CatalogFile& file : assembly_->files) files.push_back(open(file.path));
    return std::make_unique<AssembledSource>(assembly_, std::move(files));
  }

  std::shared_ptr<const Assembly> assembly_;
};

}  // namespace

std::uint64_t Assembly::add(AssembledArray array) {
  array.begin_bytes = arrays.empty() ? 0 : arrays.back().end_bytes();
  const auto size = checked_mul(array.units.numel(), array.unit_bytes);
  if (!size || !checked_add(array.begin_bytes, *size)) {
    throw Error(ErrorCode::limit, "tensors of more than 2^64 bytes").in_tensor(array.name);
  }
  arrays.push_back(std::move(array));
  return arrays.back().begin_bytes;
}

CatalogFile assembled_file(Assembly assembly) {
  HFSHARD_CHECK(!assembly.arrays.empty());
  CatalogFile out;
  const FileIdentity identity = identity_of(assembly);
  out.name = assembly.text;
  out.size_bytes = identity.size_bytes;
  out.version = identity.version;
  out.inodes = identity.inodes;
  out.header_sha256 = digest_of(assembly);
  out.path = StorePath(
      std::make_shared<AssembledStore>(std::make_shared<const Assembly>(std::move(assembly))),
      kName);
  return out;
}

}  // namespace hfshard::format::torch
