#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// The output of torch.save for one tensor to a stream without seek: a descriptor after each record
/// has its sizes and CRC. Source: pytorch/pytorch caffe2/serialize/inline_container.cc.
struct TorchArchive {
  std::string pickle;
  std::string elements;
  bool wide = false;      ///< descriptors with eight-byte sizes
  std::string note = {};  ///< an additional record before the elements
  /// A second data.pkl after the elements, which the directory names instead.
  std::string other_pickle = {};
};
std::string torch_archive(const TorchArchive& archive);
/// Returns an archive with these records, in this order: name and content.
std::string torch_records(const std::vector<std::pair<std::string, std::string>>& records);
/// Returns an archive of packed row-major elements, whose shape is in units of torch.
std::string torch_archive(DType dtype, const Shape& shape, std::string_view elements);

/// Writes checkpoints of torch.distributed.checkpoint with any item bytes and transforms.
class TorchCheckpoint {
 public:
  /// Begins the tensor of the next boxes. Shapes are in units.
  TorchCheckpoint& tensor(std::string_view name, DType dtype, const Shape& shape);
  /// Adds `item`, unchanged in the one data file. An empty transform means none.
  TorchCheckpoint& box(const Shape& begin, const Shape& extent, std::string_view item,
                       std::string_view transform = {});
  /// Adds the elements that a tensor has there, packed by zstd or not.
  TorchCheckpoint& part(const Shape& begin, const Shape& extent, const std::string& tensor,
                        bool packed);
  /// Adds a tensor in one box, whose bytes are all 1.
  TorchCheckpoint& whole(std::string_view name, DType dtype, const Shape& shape);
  /// Adds an object that isn't a tensor, with these stored bytes.
  TorchCheckpoint& object(std::string_view name, std::string_view item);
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
  struct Object {
    std::string name;
    std::size_t offset = 0;
    std::size_t length = 0;
  };
  std::vector<Tensor> tensors_;
  std::vector<Object> objects_;
  std::string data_;
};

}  // namespace hfshard
