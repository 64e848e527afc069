#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// What torch.save writes of one tensor to a stream that it cannot seek in: sizes and CRC of each
/// record are in a descriptor behind it. Source: pytorch/pytorch
/// caffe2/serialize/inline_container.cc.
struct TorchArchive {
  std::string pickle;
  std::string elements;
  bool wide = false;      ///< descriptors with sizes of eight bytes, as behind large records
  std::string note = {};  ///< content of a further record, in front of the elements
  std::string other_pickle =
      {};  ///< a second data.pkl behind them, which the directory has instead
};
std::string torch_archive(const TorchArchive& archive);
/// Of packed row-major elements, whose shape is in units of torch.
std::string torch_archive(DType dtype, const Shape& shape, std::string_view elements);

/// Writes checkpoints of torch.distributed.checkpoint with items of any bytes, and any transforms.
class TorchCheckpoint {
 public:
  /// The tensor that the boxes from now on are parts of. Shapes are in units.
  TorchCheckpoint& tensor(std::string_view name, DType dtype, const Shape& shape);
  /// `item` as it lies in the one data file. An empty transform: none.
  TorchCheckpoint& box(const Shape& begin, const Shape& extent, std::string_view item,
                       std::string_view transform = {});
  /// The same of the elements that a tensor has there, packed by zstd or not.
  TorchCheckpoint& part(const Shape& begin, const Shape& extent, const std::string& tensor,
                        bool packed);
  void write(const std::string& path) const;

  static constexpr const char* kDataFile = "__0_0.distcp";

 private:
  struct Box {
    Shape begin;
    Shape extent;
    std::size_t offset = 0;
    std::size_t length = 0;
    std::string transform;
  };
  struct Tensor {
    std::string name;
    DType dtype = DType::u8;
    Shape shape;
    std::vector<Box> boxes;
  };
  std::vector<Tensor> tensors_;
  std::string data_;
};

}  // namespace hfshard
