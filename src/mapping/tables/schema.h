#pragma once

#include <span>
#include <string_view>

namespace hfshard {

/// The objects of a family file, named like their definitions in mappings/schema.json.
enum class Block {
  family,
  match,
  scheme,
  group,
  rule_modifiers,
  fill_modifiers,
  drop_modifiers,
  value,
  constant,
  decode,
  sizes,
  use,
  local_part,
  rule_block,
  part,
  part_scheme,
  depth,
  buffers,
  mtp,
  common,
  common_scheme,
  quantization,
  undecoded,
};

/// A key that the loader accepts in a block.
struct BlockKey {
  std::string_view name;
  bool required = false;
};

/// Returns the name of the block's definition in mappings/schema.json.
std::string_view to_string(Block block) noexcept;
/// Returns every block. tests/unit/mapping/tables/schema_test.cpp compares each with schema.json.
std::span<const Block> all_blocks() noexcept;
/// Returns the keys of a block. In a scheme, any other key is the name of a layer group.
std::span<const BlockKey> block_keys(Block block) noexcept;

}  // namespace hfshard
