#include "format/torch/old_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/digest.h"
#include "base/text.h"

namespace hfshard::format::torch {
namespace {

using Id = Pickle::Id;

// Sizes of the front that is read. If one doesn't contain all the pickles, the next is tried.
constexpr std::array<std::uint64_t, 4> kFronts{std::uint64_t{1} << 20, std::uint64_t{16} << 20,
                                               std::uint64_t{128} << 20, std::uint64_t{512} << 20};
constexpr std::int64_t kOldProtocol = 1001;

class OldReader {
 public:
  OldReader(const SourceFile& file, std::uint64_t front_bytes, const Choice& choice)
      : file_(file), choice_(choice) {
    front_.resize(front_bytes);
    file_.read_at(0, std::as_writable_bytes(std::span(front_)));
  }

  // Reads the pickles.
  void parse() {
    at_ = end_of_old_magic(front_).value();
    const Pickle protocol = next();
    if (!protocol.is(protocol.root(), Pickle::Kind::integer) ||
        protocol.integer(protocol.root()) != kOldProtocol)
      throw Error(ErrorCode::unsupported, "a PyTorch file with an unknown protocol");
    check_system(next());
    saved_ = next();
    keys_ = next();
  }

  TorchFile finish() {
    TorchFile out;
    out.sha256 = sha256_hex(std::string_view(front_).substr(0, at_));
    find_storages(*saved_, *keys_);
    take_tensors(
        *saved_,
        [&](const TensorPickle& tensor) {
          const auto found = storages_.find(tensor.record);
          if (found == storages_.end() || found->second.size_bytes < tensor.storage_bytes)
            throw Error(ErrorCode::corrupt, "the file has no such storage");
          return StoragePlace{found->second.begin_bytes, 0, std::nullopt};
        },
        choice_, out);
    return out;
  }

 private:
  struct Place {
    std::uint64_t begin_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  Pickle next() {
    Pickle out(front_.substr(at_), file_.name(), Persistent::allowed, at_, file_.size_bytes());
    at_ += out.end_bytes();
    return out;
  }

  static void check_system(const Pickle& system) {
    if (!system.is(system.root(), Pickle::Kind::dict)) return;
    const auto little = system.find(system.root(), "little_endian");
    if (little && system.is(*little, Pickle::Kind::boolean) && !system.boolean(*little))
      throw Error(ErrorCode::unsupported, "elements that aren't little-endian");
  }

  // The storages follow in the order of their keys. All storages of the pickle must be there.
  void find_storages(const Pickle& saved, const Pickle& keys) {
    std::map<std::string, StoragePickle> named;
    for (Id id = 0; id < saved.values(); ++id) {
      if (!saved.is(id, Pickle::Kind::persistent) ||
          !saved.is(saved.inner(id), Pickle::Kind::tuple) ||
          saved.tuple(saved.inner(id)).size() < 5)
        continue;  // the source code of a module
      StoragePickle storage = read_storage_pickle(saved, id);
      if (storage.is_view)
        throw Error(ErrorCode::unsupported,
                    "a PyTorch file from before 0.4, with views of storages");
      std::string name = storage.record;
      named.emplace(std::move(name), std::move(storage));
    }
    if (!keys.is(keys.root(), Pickle::Kind::list))
      throw Error(ErrorCode::corrupt, "the file lacks the list of its storages");
    std::uint64_t at = at_;
    keys.for_each_run(keys.root(), [&](std::span<const Id> run) {
      for (const Id key : run) at = take_storage(keys, key, named, at);
    });
  }

  std::uint64_t take_storage(const Pickle& keys, Id key,
                             const std::map<std::string, StoragePickle>& named, std::uint64_t at) {
    const std::string name =
        keys.is(key, Pickle::Kind::text) ? "data/" + std::string(keys.text(key)) : std::string();
    const auto found = named.find(name);
    if (found == named.end())
      throw Error(ErrorCode::corrupt, "the file lists a storage without a tensor");
    const std::uint64_t size = found->second.size_bytes;
    std::array<std::byte, sizeof(std::uint64_t)> length{};
    if (!in_range(at, length.size(), file_.size_bytes())) fail_short(at, length.size());
    file_.read_at(at, length);
    at += length.size();
    if (const auto count = load_le<std::uint64_t>(length.data());
        count != size / found->second.unit_bytes) {
      throw Error(ErrorCode::corrupt,
                  fmt::format("a storage of {} elements, where its tensors say {}", count,
                              size / found->second.unit_bytes))
          .at({at - length.size(), at}, file_.size_bytes());
    }
    if (!in_range(at, size, file_.size_bytes())) fail_short(at, size);
    if (!storages_.emplace(name, Place{at, size}).second)
      throw Error(ErrorCode::corrupt, "the file lists a storage twice");
    return at + size;
  }

  [[noreturn]] void fail_short(std::uint64_t at, std::uint64_t size) const {
    throw Error(ErrorCode::corrupt, "the file ends before its last storage does")
        .at({at, checked_add(at, size).value_or(UINT64_MAX)}, file_.size_bytes())
        .hint("compare the file's size with the one on the Hub; the download may be partial");
  }

  const SourceFile& file_;
  const Choice& choice_;
  std::string front_;
  std::uint64_t at_ = 0;
  std::optional<Pickle> saved_;
  std::optional<Pickle> keys_;
  std::map<std::string, Place> storages_;
};

}  // namespace

std::optional<std::uint64_t> end_of_old_magic(std::string_view begin) {
  constexpr std::size_t kMostBefore = 11;  // the protocol, a frame and its length
  const std::size_t at = begin.find(kOldMagic);
  if (!begin.starts_with('\x80') || at == std::string_view::npos || at > kMostBefore)
    return std::nullopt;
  return at + kOldMagic.size();
}

TorchFile read_old_file(const SourceFile& file, const Choice& choice) {
  for (const std::uint64_t most : kFronts) {
    const std::uint64_t front = std::min(most, file.size_bytes());
    OldReader reader(file, front, choice);
    try {
      reader.parse();
    } catch (const Error& error) {  // a pickle beyond the front looks truncated
      const bool is_cut = error.code() == ErrorCode::corrupt && front < file.size_bytes();
      if (!is_cut || most == kFronts.back()) throw;
      continue;
    }
    return reader.finish();
  }
  throw Error(ErrorCode::limit, "a pickle of more than 512 MiB");
}

}  // namespace hfshard::format::torch
