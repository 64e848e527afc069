#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "catalog/checkpoint.h"

namespace hfshard {

/// Reads the first piece of an array with one dimension, which needs no scratch memory.
inline std::string read_piece(const Checkpoint& opened, std::uint32_t array, std::size_t size) {
  std::string out(size, '?');
  opened.open_piece(array, {0}, PieceSteps::whole_cells, {})
      ->read(std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace hfshard
