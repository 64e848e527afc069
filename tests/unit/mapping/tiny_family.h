#pragma once

#include <string>
#include <string_view>

#include "mapping/tables/family.h"

namespace hfshard {

/// A valid family file for tests to break.
inline constexpr std::string_view kTinyFamily = R"({
  "schema": 1, "family": "tiny", "match": {"model_type": ["tiny"]},
  "dims": {"D": "hidden_size", "L": "num_hidden_layers", "F": 5, "E": "num_experts ?? 2", "cyc": 2},
  "drop": [["old.* [*]", {"why": "unused"}]],
  "schemes": {"maxtext": {
    "root": "params", "scan_axis": 1, "source": "tiny/repo loader.py",
    "axes": {"D": "embed", "F": "mlp", "l": "layers"},
    "global": [["norm.weight [D]", "norm.scale [D]"]],
    "parts": {"mlp": [["up.weight [F D]", "wi.kernel [D F]"]]},
    "layer": {"for": {"l": "L"}, "hf": "layers.{l}.", "stacked": ["decoder.layers.", "l"],
              "separate": "decoder.layers_{l}.", "use": ["mlp"], "source": "tiny/repo loader.py",
              "rules": [["experts.{e}.weight [F D]", "experts [e D F]",
                         {"for": {"e": "E"}, "axes": {"e": "exp"}}]]}}},
  "example": {"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 3, "num_experts": 4}
})";

/// Returns the file with one text replaced by another. The text must occur.
inline std::string tiny_family_with(std::string_view old_text, std::string_view new_text) {
  std::string out(kTinyFamily);
  const std::size_t at = out.find(old_text);
  if (at == std::string::npos) return "old text not found";
  return out.replace(at, old_text.size(), new_text);
}

inline FamilyFile tiny_file(std::string_view text) { return {"tiny", "mappings/tiny.json", text}; }

}  // namespace hfshard
