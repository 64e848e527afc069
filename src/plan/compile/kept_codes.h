#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "catalog/catalog.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// Returns whether a tensor holds codes, and isn't about them, like scales.
bool holds_codes(const TensorInfo& tensor);

/// Codes that stay as stored, and what belongs to them by its name: scales, zero points, tables of
/// values. Most libraries put them next to the codes (x.weight_scale, x.SCB), or below them
/// (x.weight.absmax, x.weight._scale). Their dtype can't change while the codes stay.
class KeptCodes {
 public:
  /// Adds a tensor if it holds codes. The tensor must outlive this.
  void add(const TensorInfo& tensor);
  /// Returns the codes that a tensor belongs to, or nullptr. It doesn't belong to any if it has
  /// codes itself.
  const TensorInfo* codes_of(const TensorInfo& part) const;

 private:
  using ByName = std::unordered_map<std::string_view, const TensorInfo*>;
  ByName codes_;    // by their own name
  ByName words_;    // packed in words, by module
  ByName modules_;  // others, by module
};

/// Returns the error for a cast that would change a tensor and not the codes that it belongs to.
Error cast_of_part(const std::string& part, const std::string& codes,
                   const MappingOptions& options);

/// Returns a tensor of the same module that is named as scales, or nullptr.
const TensorInfo* scale_beside(const TensorInfo& codes, const Catalog& catalog);
/// Returns the error for codes without scales of a known form. It names a tensor of the same module
/// that looks like them.
Error unknown_scales(const TensorInfo& codes, const Catalog& catalog);

}  // namespace hfshard
