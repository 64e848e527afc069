#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catalog/checkpoint.h"

namespace hfshard {

/// A checkpoint's array under another name.
struct NamedArray {
  std::uint32_t array = 0;
  std::string name;
};

/// Returns a checkpoint with these arrays of another one, and with its own notes besides the
/// other's. It has the objects below `root`. It has no structure, because new names change that.
std::shared_ptr<const Checkpoint> renamed(std::shared_ptr<const Checkpoint> inner,
                                          std::vector<NamedArray> arrays,
                                          const std::vector<std::string>& notes,
                                          const std::string& root = {});

}  // namespace hfshard
