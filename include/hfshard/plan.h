#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/checkpoint.h"
#include "hfshard/encoding.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// How a source is read that is a tree of arrays, not a HuggingFace model.
struct TreeOptions {
  bool same = false;              ///< every array under its own name: `reshard`
  std::vector<std::string> axes;  ///< --axes, as typed: logical axes of what says none itself
  /// config.json of the model whose tree it is, where the tree does not say: --config DIR.
  std::optional<std::string> config_text;
  std::string config_name;            ///< its path
  std::optional<std::uint64_t> step;  ///< which step of the source is read; absent: the highest
  /// --root: the subtree that is read, its keys dotted, as a tree of its own; empty: all of it.
  std::string root;
  std::string items;  ///< --items NAME: which of a step's trees is read; empty: the only one
  /// --items all: the usual tree of a step; what lies beside it is copied as it is.
  bool all_items = false;
};

/// Every option that affects bytes (design.md 2.8). Anything else is an option of the run.
struct PlanOptions {
  MappingOptions mapping;
  /// Name of a format that is written; empty: the source's of a tree that stays the same
  /// (tree.same), else the default one.
  std::string target;
  std::vector<std::string> meshes;  ///< as typed: "fsdp=16,expert=2"; empty: default_mesh
  std::optional<std::string>
      rules_text;  ///< contents of --rules FILE; absent: the scheme's default
  std::string rules_name = "default axis rules";  ///< in errors
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
  /// Of arrays in a data file, for formats that store each array whole.
  std::uint64_t shard_bytes = std::uint64_t{5} * 1000 * 1000 * 1000;
  std::uint64_t step = 0;
  Encoding encoding;
  bool link = false;  ///< index only: chunks are byte ranges of the source's files where they can
  bool in_place = false;  ///< and the index lies in the source's directory
  bool digests = true;    ///< record the digests of what is linked, which takes reading it
  FileGlobs files;        ///< which weight files of a source that is a model
  TreeOptions tree;
};

}  // namespace hfshard
