#include "mapping/schema.h"

#include <cstddef>

namespace hfshard {
namespace {

constexpr Block kBlocks[] = {Block::family,         Block::match,          Block::scheme,
                             Block::group,          Block::rule_modifiers, Block::fill_modifiers,
                             Block::drop_modifiers, Block::value,          Block::constant,
                             Block::decode};

constexpr BlockKey kFamily[] = {{"schema", true},   {"family", true},  {"match", true},
                                {"dims", true},     {"schemes", true}, {"example", true},
                                {"source", false},  {"drop", false},   {"decode", false},
                                {"require", false}, {"notes", false},  {"model_names", false},
                                {"sizes", false}};
constexpr BlockKey kMatch[] = {{"model_type", true}, {"architectures", false}};
constexpr BlockKey kScheme[] = {{"root", true},   {"scan_axis", true}, {"axes", true},
                                {"source", true}, {"global", false},   {"fill", false},
                                {"drop", false},  {"parts", false}};
constexpr BlockKey kGroup[] = {{"for", true},       {"hf", true},       {"stacked", false},
                               {"separate", false}, {"rules", false},   {"use", false},
                               {"fill", false},     {"require", false}, {"source", false}};
constexpr BlockKey kRule[] = {{"when", false},   {"for", false},   {"axes", false},
                              {"value", false},  {"dtype", false}, {"stays", false},
                              {"repeat", false}, {"copy", false},  {"source", false}};
constexpr BlockKey kFill[] = {
    {"when", false}, {"for", false}, {"axes", false}, {"dtype", false}, {"source", false}};
constexpr BlockKey kDrop[] = {
    {"why", true}, {"same_as", false}, {"when", false}, {"for", false}, {"source", false}};
constexpr BlockKey kValue[] = {{"mul", false}, {"add", false}};
constexpr BlockKey kConstant[] = {{"expr", true}, {"const_dtype", true}};
constexpr BlockKey kDecode[] = {{"kind", true},   {"scale", true},  {"name", false},
                                {"dtype", false}, {"block", false}, {"when", false}};

}  // namespace

std::string_view to_string(Block block) noexcept {
  switch (block) {
    case Block::family:
      return "family";
    case Block::match:
      return "match";
    case Block::scheme:
      return "scheme";
    case Block::group:
      return "group";
    case Block::rule_modifiers:
      return "rule_modifiers";
    case Block::fill_modifiers:
      return "fill_modifiers";
    case Block::drop_modifiers:
      return "drop_modifiers";
    case Block::value:
      return "value";
    case Block::constant:
      return "constant";
    case Block::decode:
      return "decode";
  }
  return "";
}

std::span<const Block> all_blocks() noexcept { return kBlocks; }

std::span<const BlockKey> block_keys(Block block) noexcept {
  switch (block) {
    case Block::family:
      return kFamily;
    case Block::match:
      return kMatch;
    case Block::scheme:
      return kScheme;
    case Block::group:
      return kGroup;
    case Block::rule_modifiers:
      return kRule;
    case Block::fill_modifiers:
      return kFill;
    case Block::drop_modifiers:
      return kDrop;
    case Block::value:
      return kValue;
    case Block::constant:
      return kConstant;
    case Block::decode:
      return kDecode;
  }
  return {};
}

}  // namespace hfshard
