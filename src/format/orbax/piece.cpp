#include "format/orbax/piece.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/bools.h"
#include "base/text.h"
#include "format/orbax/zarr/chunk_reader.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

class StoredPiece final : public PieceReader {
 public:
  StoredPiece(StoredChunk stored, const ArrayKind& kind, const Shape& chunk, PieceSteps steps,
              std::span<std::byte> scratch, const std::string& leaf)
      : stored_(std::move(stored)),
        kind_(kind),
        chunk_(chunk),
        leaf_(leaf),
        reader_(kind.array, kind.form, chunk_, stored_, steps, scratch) {}
  void read(std::span<std::byte> out) override {
    named([&] {
      reader_.read(out);
      if (kind_.array.dtype == DType::boolean) check_bools(out);
    });
  }
  void skip(std::uint64_t bytes) override {
    named([&] { reader_.skip(bytes); });
  }

 private:
  template <typename Action>
  void named(const Action& action) const {
    try {
      action();
    } catch (Error& error) {
      if (!error.file().empty()) throw error.in_tensor(leaf_);
      if (error.code() == ErrorCode::internal) throw;
      // The decoder only knows ranges within the chunk. The file's name and range are known here.
      const ByteRange within = error.range().value_or(ByteRange{0, stored_.size_bytes()});
      const std::uint64_t begin = stored_.begin_bytes();
      Error located(error.code(),
                    fmt::format("chunk {}: {}", quote(zarr::chunk_key(kind_.array.keys, chunk_)),
                                error.sentence()));
      located.in_file(stored_.name())
          .in_tensor(leaf_)
          .at({begin + within.begin, begin + within.end}, stored_.total_bytes());
      if (!error.hint_text().empty()) located.hint(std::string(error.hint_text()));
      throw located;
    }
  }

  const StoredChunk stored_;
  const ArrayKind& kind_;
  const Shape chunk_;
  const std::string& leaf_;
  zarr::ChunkReader reader_;
};

class FillPiece final : public PieceReader {
 public:
  explicit FillPiece(const zarr::Array& array) : array_(array) {}
  void read(std::span<std::byte> out) override {
    zarr::put_fill(array_, done_bytes_, out);
    done_bytes_ += out.size();
  }
  void skip(std::uint64_t bytes) override { done_bytes_ += bytes; }

 private:
  const zarr::Array& array_;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PieceReader> open_stored(StoredChunk stored, const ArrayKind& kind,
                                         const Shape& chunk, PieceSteps steps,
                                         std::span<std::byte> scratch, const std::string& leaf) {
  return std::make_unique<StoredPiece>(std::move(stored), kind, chunk, steps, scratch, leaf);
}

std::unique_ptr<PieceReader> open_fill(const zarr::Array& array) {
  return std::make_unique<FillPiece>(array);
}

}  // namespace hfshard::format::orbax
