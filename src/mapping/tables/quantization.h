#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mapping/tables/decode_rule.h"
#include "mapping/tables/table.h"

namespace hfshard {

/// Tensors that belong to codes. A model without codes doesn't have them.
struct BesideCodes {
  std::string glob;
  std::string why;
};

/// A method whose codes can't be decoded, and what to do instead.
struct UndecodedMethod {
  std::string what;                  ///< "AWQ"
  std::string way;                   ///< an imperative
  std::vector<std::string> methods;  ///< values of quantization_config.quant_method
  std::vector<std::string> formats;  ///< values of quantization_config.format
  std::vector<std::string> names;    ///< globs for its own tensors
};

/// `quantization` of mappings/common.json: the codes that every family can have.
struct Quantization {
  std::vector<DecodeRule> decodes;
  std::vector<std::string> methods;  ///< values of quant_method that the decoders know
  std::vector<BesideCodes> beside;
  std::vector<UndecodedMethod> undecoded;

  /// Returns the reason for dropping a tensor with this name if codes are decoded, or nullptr.
  const BesideCodes* beside_codes(std::string_view tensor) const;
  /// Returns the method whose tensors have such names, or nullptr.
  const UndecodedMethod* undecoded_name(std::string_view tensor) const;
};

/// Returns the definitions, parsed once.
const Quantization& quantization();

/// Returns the name of the stored codes for the tensor that rules call `value`. Empty unless `has`
/// finds them.
std::string stored_as(std::string_view value, const std::function<bool(std::string_view)>& has);

/// Returns a table without rules, with the decoders of all families.
const MappingTable& table_of_codes();

}  // namespace hfshard
