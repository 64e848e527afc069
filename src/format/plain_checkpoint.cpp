#include "format/plain_checkpoint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "bytes/store/open_files.h"

#include "hfshard/error.h"

namespace hfshard::format {
namespace {

// Reads the byte range of one tensor unchanged.
class TensorReader final : public PieceReader {
 public:
  TensorReader(const TensorInfo& tensor, std::shared_ptr<const SourceFile> file,
               std::optional<std::uint32_t> wanted)
      : tensor_(tensor), file_(std::move(file)), next_(tensor.begin_bytes), wanted_(wanted) {}

  void read(std::span<std::byte> out) override {
    HFSHARD_CHECK(out.size() <= tensor_.range().end - next_);
    try {
      file_->read_at(next_, out);
    } catch (Error& error) {  // only here is the tensor known
      throw error.in_tensor(tensor_.name);
    }
    next_ += out.size();
    if (wanted_) count(out);
  }
  void skip(std::uint64_t bytes) override {
    HFSHARD_CHECK(bytes <= tensor_.range().end - next_);
    next_ += bytes;
    if (bytes > 0) wanted_.reset();
  }

 private:
  void count(std::span<const std::byte> read) {
    crc_ = crc32_extend(crc_, read);
    if (next_ != tensor_.range().end || crc_ == *wanted_) return;
    throw Error(
        ErrorCode::corrupt,
        fmt::format("the elements don't match their CRC: {:08x} instead of {:08x}", crc_, *wanted_))
        .in_file(file_->name())
        .in_tensor(tensor_.name)
        .at(tensor_.range(), file_->size_bytes());
  }

  const TensorInfo& tensor_;
  std::shared_ptr<const SourceFile> file_;
  std::uint64_t next_;
  std::optional<std::uint32_t> wanted_;  // nothing if it can't be compared
  std::uint32_t crc_ = 0;
};

class PlainCheckpoint final : public Checkpoint {
 public:
  PlainCheckpoint(Catalog catalog, ArrayCrcs crcs)
      : catalog_(std::move(catalog)), crcs_(std::move(crcs)) {}

  const Catalog& catalog() const override { return catalog_; }
  // Opening checked that each tensor is in its file. So each one without an extent of 0 has one
  // piece.
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    const Shape& shape = catalog_.tensors[array].shape;
    return piece.rank() == shape.rank() &&
           std::ranges::all_of(piece, [](std::uint64_t at) { return at == 0; }) &&
           std::ranges::find(shape, std::uint64_t{0}) == shape.end();
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    HFSHARD_CHECK(has_piece(array, piece));
    const TensorInfo& tensor = catalog_.tensors[array];
    const CatalogFile& file = catalog_.files[tensor.file];
    if (!in_range(tensor.begin_bytes, tensor.size_bytes, file.size_bytes)) {
      throw Error(ErrorCode::corrupt, "tensor data passes the end of the file")
          .in_file(file.path.text())
          .in_tensor(tensor.name)
          .at(tensor.range(), file.size_bytes);
    }
    try {
      return std::make_unique<TensorReader>(tensor, files_.open(tensor.file, file.path),
                                            crcs_.empty() ? std::nullopt : crcs_[array]);
    } catch (Error& error) {  // only here is the tensor known
      throw error.in_tensor(tensor.name);
    }
  }
  std::uint64_t scratch_bytes(std::uint32_t /*array*/, PieceSteps /*steps*/) const override {
    return 0;
  }

 private:
  Catalog catalog_;
  const ArrayCrcs crcs_;
  OpenFiles files_;
};

}  // namespace

std::unique_ptr<Checkpoint> plain_checkpoint(Catalog catalog, ArrayCrcs crcs) {
  return std::make_unique<PlainCheckpoint>(std::move(catalog), std::move(crcs));
}

}  // namespace hfshard::format
