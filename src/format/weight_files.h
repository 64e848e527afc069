#pragma once

#include <string>
#include <string_view>

namespace hfshard::format {

/// The names of a model's weight files, for one kind of file in a Hugging Face directory.
struct WeightFiles {
  std::string_view kind;    ///< for people: "safetensors"
  std::string_view ending;  ///< ".safetensors"
  std::string_view stem;    ///< "model", of "model-00001-of-00002.safetensors"

  /// Returns the name of the single file: "model.safetensors".
  std::string whole() const { return std::string(stem) + std::string(ending); }
  /// Returns "model.safetensors.index.json".
  std::string index() const { return whole() + ".index.json"; }
  /// Returns a pattern for names with this prefix: "model-*.safetensors".
  std::string beginning(std::string_view begin) const {
    return std::string(begin) + "*" + std::string(ending);
  }
};

inline constexpr WeightFiles kSafetensorsFiles{"safetensors", ".safetensors", "model"};
/// Files of torch.save. Source: huggingface/transformers src/transformers/utils/__init__.py,
/// WEIGHTS_NAME and WEIGHTS_INDEX_NAME.
inline constexpr WeightFiles kTorchFiles{"PyTorch", ".bin", "pytorch_model"};

/// The text with which a file of git-lfs begins that stands for another file. Source:
/// git-lfs/git-lfs docs/spec.md, The Pointer.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs";

}  // namespace hfshard::format
