#include "mapping/tables/schema.h"

#include <cstddef>

namespace hfshard {
namespace {

constexpr Block kBlocks[] = {Block::family,
                             Block::match,
                             Block::scheme,
                             Block::group,
                             Block::rule_modifiers,
                             Block::fill_modifiers,
                             Block::drop_modifiers,
                             Block::value,
                             Block::constant,
                             Block::decode,
                             Block::sizes,
                             Block::use,
                             Block::local_part,
                             Block::rule_block,
                             Block::part,
                             Block::part_scheme,
                             Block::buffers,
                             Block::depth,
                             Block::mtp,
                             Block::common,
                             Block::common_scheme,
                             Block::quantization,
                             Block::undecoded};

constexpr BlockKey kFamily[] = {
    {"schema", true}, {"family", true},   {"match", true},     {"schemes", true}, {"example", true},
    {"dims", false},  {"source", false},  {"drop", false},     {"decode", false}, {"sizes", false},
    {"use", false},   {"tensors", false}, {"config_at", false}};
constexpr BlockKey kMatch[] = {{"model_type", true}, {"architectures", false}};
constexpr BlockKey kScheme[] = {
    {"source", true},         {"root", false},       {"scan_axis", false},
    {"axes", false},          {"axis_rules", false}, {"axes_without_rules", false},
    {"modifiers", false},     {"use", false},        {"require", false},
    {"notes", false},         {"global", false},     {"fill", false},
    {"drop", false},          {"parts", false},      {"model_names", false},
    {"axes_by_place", false}, {"rest", false},       {"rename", false},
    {"settings", false},      {"warnings", false},   {"by_release", false},
    {"keeps_codes", false},   {"forms", false}};
constexpr BlockKey kGroup[] = {
    {"for", false}, {"hf", false},   {"stacked", false}, {"separate", false}, {"rules", false},
    {"use", false}, {"fill", false}, {"require", false}, {"source", false},   {"rename", false}};
constexpr BlockKey kRule[] = {{"when", false},      {"for", false},        {"axes", false},
                              {"value", false},     {"dtype", false},      {"stays", false},
                              {"repeat", false},    {"copy", false},       {"source", false},
                              {"scan_axis", false}, {"collection", false}, {"integers", false}};
constexpr BlockKey kFill[] = {{"when", false},  {"for", false},    {"axes", false},
                              {"dtype", false}, {"source", false}, {"collection", false}};
constexpr BlockKey kDrop[] = {
    {"why", true}, {"same_as", false}, {"when", false}, {"for", false}, {"source", false}};
constexpr BlockKey kValue[] = {{"mul", false}, {"add", false}};
constexpr BlockKey kConstant[] = {{"expr", true}, {"const_dtype", true}};
constexpr BlockKey kDecode[] = {{"kind", true},         {"scale", true},     {"name", false},
                                {"dtype", false},       {"block", false},    {"when", false},
                                {"scale_dtype", false}, {"zeros", false},    {"divide", false},
                                {"as", false},          {"multiply", false}, {"rounds", false},
                                {"usual", false},       {"about", false}};
constexpr BlockKey kQuantization[] = {
    {"source", true}, {"methods", true}, {"decode", true}, {"drop", true}, {"undecoded", true}};
constexpr BlockKey kUndecoded[] = {
    {"what", true}, {"way", true}, {"method", false}, {"format", false}, {"names", false}};
constexpr BlockKey kSizes[] = {{"models", true}, {"keys", false}, {"all", false}};
constexpr BlockKey kUse[] = {{"part", true},  {"at", false},   {"to", false},  {"when", false},
                             {"dims", false}, {"only", false}, {"with", false}};
constexpr BlockKey kLocalPart[] = {{"use", false}, {"rules", false}};
constexpr BlockKey kRuleBlock[] = {{"rules", true}, {"to", false}, {"with", false}};
constexpr BlockKey kPart[] = {{"about", true},    {"at", false},   {"dims", false},
                              {"tensors", false}, {"drop", false}, {"decode", false},
                              {"schemes", false}};
constexpr BlockKey kPartScheme[] = {{"to", false},       {"axes", false},    {"rules", false},
                                    {"fill", false},     {"require", false}, {"notes", false},
                                    {"for", false},      {"hf", false},      {"stacked", false},
                                    {"separate", false}, {"drop", false},    {"settings", false},
                                    {"warnings", false}};
constexpr BlockKey kBuffers[] = {{"source", true}, {"names", true}};
constexpr BlockKey kDepth[] = {{"source", true},  {"dim", true},   {"count", true}, {"lists", true},
                               {"indices", true}, {"first", true}, {"last", true}};
constexpr BlockKey kMtp[] = {{"source", true}, {"counts", true}, {"names", true}};
constexpr BlockKey kCommon[] = {{"schema", true},       {"sources", true}, {"schemes", true},
                                {"parts", true},        {"depth", true},   {"mtp", true},
                                {"quantization", true}, {"buffers", true}};
constexpr BlockKey kCommonScheme[] = {
    {"about", true},      {"root", true},           {"scan_axis", true},
    {"axes", true},       {"axis_rules", true},     {"loader", true},
    {"modifiers", false}, {"axes_by_place", false}, {"axes_without_rules", false},
    {"rest", false}};

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
    case Block::sizes:
      return "sizes";
    case Block::use:
      return "use";
    case Block::local_part:
      return "local_part";
    case Block::rule_block:
      return "rule_block";
    case Block::part:
      return "part";
    case Block::part_scheme:
      return "part_scheme";
    case Block::buffers:
      return "buffers";
    case Block::depth:
      return "depth";
    case Block::mtp:
      return "mtp";
    case Block::common:
      return "common";
    case Block::common_scheme:
      return "common_scheme";
    case Block::quantization:
      return "quantization";
    case Block::undecoded:
      return "undecoded";
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
    case Block::sizes:
      return kSizes;
    case Block::use:
      return kUse;
    case Block::local_part:
      return kLocalPart;
    case Block::rule_block:
      return kRuleBlock;
    case Block::part:
      return kPart;
    case Block::part_scheme:
      return kPartScheme;
    case Block::buffers:
      return kBuffers;
    case Block::depth:
      return kDepth;
    case Block::mtp:
      return kMtp;
    case Block::common:
      return kCommon;
    case Block::common_scheme:
      return kCommonScheme;
    case Block::quantization:
      return kQuantization;
    case Block::undecoded:
      return kUndecoded;
  }
  return {};
}

}  // namespace hfshard
