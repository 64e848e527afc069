#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catalog/format.h"

namespace hfshard::conformance {

/// Returns every format of the product, and the tests' own.
const std::vector<const Format*>& tested_formats();

/// Opens a checkpoint of any of them, as the product does for its formats.
std::unique_ptr<Checkpoint> open_tested(const std::string& path);

}  // namespace hfshard::conformance
