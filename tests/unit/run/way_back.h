#pragma once

#include <string>

#include "unit/run/run_support.h"

namespace hfshard {

/// Plans an export of an Orbax checkpoint whose stacks are one frame each.
inline Plan way_back(const TempDir& dir, const std::string& source) {
  PlanOptions packed;
  packed.encoding.zstd_level = 1;
  convert(small_plan(source, packed, Limits{}), to_output(dir / "out"));
  PlanOptions back;
  back.target = "safetensors";
  back.mapping.scheme = "hf";
  return small_plan(dir / "out/0/items", back, Limits{});
}

}  // namespace hfshard
