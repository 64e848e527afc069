#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// Builds valid and invalid safetensors files. Tensors have the order in which they were added.
class SafetensorsBuilder {
 public:
  /// Adds a tensor. Without bytes it gets a pattern that depends on its name.
  SafetensorsBuilder& tensor(std::string name, DType dtype, const Shape& shape,
                             std::optional<std::string> bytes = std::nullopt);
  /// Writes these data_offsets for a tensor instead of the true ones. Its bytes stay.
  SafetensorsBuilder& lie_about_range(const std::string& name, ByteRange range);
  /// Writes this text for a tensor's `dtype`, `shape` or `data_offsets` instead of the true one.
  SafetensorsBuilder& lie_about(const std::string& name, const std::string& member,
                                std::string json_text);
  /// Adds a member to a tensor's object, unchanged.
  SafetensorsBuilder& extra_member(const std::string& name, std::string json_text);
  /// Adds an entry to `__metadata__`.
  SafetensorsBuilder& metadata(std::string key, std::string value);
  /// Uses this header text instead of the tensors' true one.
  SafetensorsBuilder& raw_header(std::string text);
  /// Uses this number in the length field.
  SafetensorsBuilder& raw_length(std::uint64_t length);
  /// Pads the header with spaces so that the data begin at a multiple of this (plus `skew`).
  SafetensorsBuilder& align(std::uint64_t multiple, std::uint64_t skew = 0);

  /// Returns the bytes of one tensor.
  const std::string& data_of(const std::string& name) const;
  std::string header() const;
  /// Returns the whole file.
  std::string build() const;
  void write(const std::string& path) const;

 private:
  struct Item {
    std::string name;
    DType dtype;
    Shape shape;
    std::string bytes;
    std::map<std::string, std::string> lies;
    std::string extra;
  };
  Item& find(const std::string& name);
  std::vector<Item> items_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::optional<std::string> raw_header_;
  std::optional<std::uint64_t> raw_length_;
  std::uint64_t align_ = 1;
  std::uint64_t skew_ = 0;
};

/// Returns `model.safetensors.index.json` for (tensor, file) pairs.
std::string index_json(const std::vector<std::pair<std::string, std::string>>& weight_map);

}  // namespace hfshard
