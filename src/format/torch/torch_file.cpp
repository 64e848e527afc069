#include "format/torch/torch_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/digest.h"
#include "base/text.h"
#include "format/archive.h"
#include "format/tensor_pickle.h"
#include "format/torch/old_file.h"
#include "format/torch/state_dict.h"
#include "format/torch_dtype.h"
#include "format/unreadable.h"
#include "format/weight_files.h"
#include "format/zip.h"

namespace hfshard::format::torch {
namespace {

// 92 thousand tensors take 20 MB.
constexpr std::uint64_t kMaxPickle = std::uint64_t{512} << 20;
constexpr std::uint64_t kLookedAt = 512;  // names of files are at most 255

std::string first_bytes(const Source& file) {
  std::string out(std::min(file.size_bytes(), kLookedAt), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(out)));
  return out;
}

enum class Wrapping : std::uint8_t { archive, old };

Wrapping wrapping_of(const Source& file) {
  const std::string begin = first_bytes(file);
  if (begin.starts_with(zip::kHeader)) return Wrapping::archive;
  if (end_of_old_magic(begin)) return Wrapping::old;
  if (begin.starts_with(kLfsPointer)) {
    throw Error(ErrorCode::bad_input, "this is a git-lfs pointer, not the file")
        .hint("run git lfs pull in the repository, or download the file");
  }
  throw Error(ErrorCode::bad_input, "torch.save didn't write this file");
}

// Reads one archive.
class ArchiveReader {
 public:
  ArchiveReader(const SourceFile& file, const Choice& choice)
      : file_(file), choice_(choice), archive_(file, {0, file.size_bytes()}, "file") {}

  TorchFile run() {
    if (archive_.find("constants.pkl") != nullptr) {
      throw Error(ErrorCode::unsupported, "a TorchScript program, which hfshard can't read")
          .hint("save the state_dict() of the module with torch.save");
    }
    const Archive::Record* data = archive_.find("data.pkl");
    if (data == nullptr) archive_.fail("the archive has no data.pkl");
    std::string text = archive_.read(*data, kMaxPickle);
    TorchFile out;
    out.sha256 = sha256_hex(text + archive_.directory());
    check_byte_order();
    const Pickle pickle(std::move(text), file_.name(), Persistent::allowed,
                        archive_.payload_bytes(*data), file_.size_bytes());
    take_tensors(
        pickle, [&](const TensorPickle& found) { return place_of(found); }, choice_, out);
    return out;
  }

 private:
  void check_byte_order() const {
    const Archive::Record* order = archive_.find("byteorder");
    if (order != nullptr && archive_.read(*order) != "little")
      throw Error(ErrorCode::unsupported, "elements that aren't little-endian");
  }

  StoragePlace place_of(const TensorPickle& found) {
    const Archive::Record* record = archive_.find(found.record);
    if (record == nullptr)
      archive_.fail(fmt::format("the archive has no record {}", quote(found.record)));
    if (record->size_bytes < found.storage_bytes) {
      archive_.fail(fmt::format("the storage needs {} bytes; its record {} has {}",
                                found.storage_bytes, quote(found.record), record->size_bytes));
    }
    return {begin_of(*record), record->size_bytes,
            archive_.has_crcs() ? std::optional(record->crc) : std::nullopt};
  }

  // Over a network, a request for each header would take longer than all other requests.
  std::uint64_t begin_of(const Archive::Record& record) {
    const auto [known, fresh] = begins_.try_emplace(&record, 0);
    if (!fresh) return known->second;
    const auto placed = file_.is_far() ? archive_.placed_bytes(record) : std::nullopt;
    known->second = placed ? *placed : archive_.payload_bytes(record);
    return known->second;
  }

  const SourceFile& file_;
  const Choice& choice_;
  Archive archive_;
  std::map<const Archive::Record*, std::uint64_t> begins_;
};

}  // namespace

void take_tensors(const Pickle& pickle, const PlaceStorage& place, const Choice& choice,
                  TorchFile& out) {
  StateDict state = find_state_dict(pickle, choice.root);
  for (StateDict::Entry& entry : state.tensors) {
    try {
      auto shard = find_dtensor(pickle, entry.value);
      const TensorPickle found = read_tensor_pickle(pickle, shard ? shard->local : entry.value);
      const StoragePlace storage = place(found);
      StoredView& view = out.tensors.emplace_back();
      view.dtype = found.dtype;
      view.units = found.shape;
      view.strides = found.strides;
      view.crc = storage.crc;
      // No one checked the offset of a tensor without elements.
      view.offset_bytes = view.size_bytes() == 0 ? 0 : found.offset * unit_bytes(found.dtype);
      view.begin_bytes = storage.begin_bytes + view.offset_bytes;
      view.is_whole = view.offset_bytes == 0 && view.size_bytes() == storage.size_bytes;
      if (shard) {
        view.shard = {shard->shape, std::move(shard->placements), std::move(shard->mesh.sizes),
                      shard->mesh.is_in_order};
      }
    } catch (Error& error) {  // only here is the tensor known
      error.in_tensor(entry.name);
      out.unreadable.push_back(accept_unreadable(choice.without, entry.name, error));
      continue;
    }
    out.tensors.back().name = std::move(entry.name);
  }
  out.below = std::move(state.below);
  out.others = std::move(state.others);
}

bool is_packed(const Shape& units, const Shape& strides) {
  if (std::ranges::find(units, std::uint64_t{0}) != units.end()) return true;
  std::uint64_t run = 1;
  for (std::size_t d = units.rank(); d-- > 0;) {
    if (units[d] > 1 && strides[d] != run) return false;
    run *= units[d];
  }
  return true;
}

std::uint64_t StoredView::size_bytes() const {
  const auto out = checked_mul(units.numel(), unit_bytes(dtype));
  if (!out) throw Error(ErrorCode::limit, "a tensor of more than 2^64 bytes");
  return *out;
}

bool begins_as_torch_file(const StorePath& path, bool of_any_name) {
  const std::string begin = first_bytes(*path.open());
  if (end_of_old_magic(begin)) return true;
  if (!begin.starts_with(zip::kHeader) || !of_any_name) return begin.starts_with(zip::kHeader);
  // torch writes data.pkl first, in a folder with the file's name.
  if (begin.size() < zip::kHeaderBytes) return false;
  const std::string_view name =
      std::string_view(begin).substr(zip::kHeaderBytes, zip::number_at<std::uint16_t>(begin, 26));
  return name.ends_with("/data.pkl");
}

TorchFile read_torch_file(const StorePath& path, const Choice& choice) {
  try {
    const auto file = path.open();
    TorchFile out = wrapping_of(*file) == Wrapping::archive ? ArchiveReader(*file, choice).run()
                                                            : read_old_file(*file, choice);
    out.identity = file->identity();
    return out;
  } catch (Error& error) {  // only here is the file known
    throw error.in_file(path.text());
  }
}

}  // namespace hfshard::format::torch
