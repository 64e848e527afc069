#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/checkpoint.h"
#include "hfshard/encoding.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// How to read a source that is a tree of arrays, not a Hugging Face model.
struct TreeOptions {
  bool same = false;              ///< `reshard`: keep all names
  std::vector<std::string> axes;  ///< --axes, for arrays without axes
  /// --config DIR: config.json of the model, if the tree doesn't state its model.
  std::optional<std::string> config_text;
  std::string config_name;            ///< its path
  std::optional<std::uint64_t> step;  ///< --step; the highest if absent
  /// --root: dotted keys of the subtree to read as a tree. All of it if empty.
  std::string root;
  std::string items;      ///< --items NAME, one of a step's trees
  std::string item_name;  ///< kept by a reshard; empty for the default
  /// How a reshard names its step's directory, as its source does: a prefix, and the fewest digits
  /// of the number.
  std::string step_prefix;
  unsigned step_digits = 0;
  bool direct =
      false;  ///< a reshard writes the tree into the step, not into an item, as its source
  /// --items all: read the usual tree of a step, and copy everything else.
  bool all_items = false;
};

/// All options that affect bytes (design.md 2.8). Others are RunOptions.
struct PlanOptions {
  MappingOptions mapping;
  /// Name of the output format. If empty, a reshard (tree.same) keeps the source's; other runs take
  /// the default one.
  std::string target;
  std::vector<std::string> meshes;  ///< "fsdp=16,expert=2"; or default_mesh
  /// Contents of --rules FILE. If absent, the scheme's default.
  std::optional<std::string> rules_text;
  std::string rules_name = "default axis rules";  ///< for errors
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
  /// Most bytes of arrays in a data file, for formats that store arrays whole.
  std::uint64_t shard_bytes = std::uint64_t{5} * 1000 * 1000 * 1000;
  /// The output's step, for formats with steps. If absent, a reshard (tree.same) keeps the step of
  /// its source; other outputs are step 0.
  std::optional<std::uint64_t> step;
  Encoding encoding;
  /// Write an index whose chunks are byte ranges of the source's files, where possible.
  bool link = false;
  bool in_place = false;  ///< write the index into the source's directory
  bool digests = true;    ///< read linked data to record its digests
  FileGlobs files;        ///< weight files of a model
  TreeOptions tree;
};

}  // namespace hfshard
