#pragma once

#include <span>
#include <string_view>

namespace hfshard {

/// The objects of a family file, as mappings/schema.json names their definitions.
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
  model_names,
  sizes,
  use,
  local_part,
  rule_block,
  part,
  part_scheme,
  depth,
  mtp,
  common,
  common_scheme,
};

/// A key that the loader accepts in a block.
struct BlockKey {
  std::string_view name;
  bool required = false;
};

/// Name of the block's definition in mappings/schema.json.
std::string_view to_string(Block block) noexcept;
/// Every block: tests/unit/mapping/schema_test.cpp compares each with schema.json.
std::span<const Block> all_blocks() noexcept;
/// The keys of a block. A scheme takes any further key as the name of a layer group.
std::span<const BlockKey> block_keys(Block block) noexcept;

}  // namespace hfshard
