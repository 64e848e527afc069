#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/compile/model.h"
#include "plan/layout/limits.h"
#include "plan/layout/unit.h"
#include "plan/layout/unpacked_form.h"

namespace hfshard {

/// How a leaf reads those of its arrays that are cut into pieces and not unpacked.
struct SourceChoice {
  std::optional<SourcePieces> pieces;        ///< nothing: it reads none so
  std::vector<std::uint32_t> taken;          ///< arrays whose pieces its units take as they come
  std::vector<std::uint32_t> refused;        ///< those that must be unpacked, since no unit can
  std::uint64_t unpacked_scratch_bytes = 0;  ///< beside a unit's region, to read what is unpacked
};
SourceChoice choose_source(const Model& model, const Leaf& leaf,
                           const std::vector<const Transfer*>& transfers,
                           const std::vector<UnpackedForm>& unpacked, const Limits& limits);

/// Adds what a leaf refuses to the arrays that are unpacked, which are ascending. Whether one is
/// new.
bool add_refused(const SourceChoice& choice, std::vector<std::uint32_t>& unpacked);

}  // namespace hfshard
