#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// Makes files like those of torch.save for a dict of tensors. Shapes are in units.
class TorchFileBuilder {
 public:
  /// Returns the number of a new storage.
  std::size_t storage(std::string bytes);
  /// Adds a view of a storage. Its numbers aren't checked.
  TorchFileBuilder& view(std::string_view name, DType dtype, const Shape& shape,
                         const Shape& strides, std::uint64_t offset, std::size_t storage);
  /// Adds a packed tensor with its own storage.
  TorchFileBuilder& tensor(std::string_view name, DType dtype, const Shape& shape,
                           std::string_view elements);
  /// Adds an entry that isn't a tensor.
  TorchFileBuilder& other(std::string_view name);
  /// Adds a key above all tensors. The first is the outermost.
  TorchFileBuilder& below(std::string_view key);
  /// Makes storages state more bytes than their records have.
  TorchFileBuilder& overstate(std::uint64_t bytes);
  /// Adds another record.
  TorchFileBuilder& record(std::string_view name, std::string_view content);

  std::string pickle() const;
  std::string bytes() const;
  void write(const std::string& path) const;

 private:
  struct View {
    std::string name;
    DType dtype = DType::u8;
    Shape shape;
    Shape strides;
    std::uint64_t offset = 0;
    std::size_t storage = 0;
    bool is_tensor = true;
  };
  std::vector<std::string> storages_;
  std::vector<View> views_;
  std::vector<std::string> keys_;
  std::vector<std::pair<std::string, std::string>> records_;
  std::uint64_t overstated_ = 0;
};

}  // namespace hfshard
