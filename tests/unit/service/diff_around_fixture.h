#pragma once

// Runs can differ besides their arrays: in steps, metadata of the root, and other items.

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {

class DiffAroundTest : public testing::Test {
 protected:
  RunOptions run_to(const std::string& out) const {
    RunOptions run;
    run.out = out;
    run.limits = &limits_;
    run.scratch_directory = dir_.path();
    return run;
  }
  std::string convert_to(const std::string& out) {
    hfshard::convert(source_, small_options(), run_to(dir_ / out), quiet_);
    return dir_ / out;
  }
  DiffResult compare(const SourceName& a, const SourceName& b, const DiffOptions& options = {}) {
    return diff(a, b, options, run_to(""), quiet_);
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

inline bool differs(const DiffResult& result, const std::string& name, StructureDiff::Kind kind) {
  return std::ranges::any_of(result.structure, [&](const StructureDiff& item) {
    return item.name == name && item.kind == kind;
  });
}

// Changes the metadata of a tree.
inline void edit_metadata(const std::string& tree, const std::function<void(Json&)>& edit) {
  const std::string path = tree + "/0/items/_METADATA";
  Json metadata = parse_json(read_text(path), path);
  edit(metadata);
  write_text(path, dump_json(metadata));
}

// Adds a node that isn't an array to a tree.
inline void add_none(const std::string& tree) {
  edit_metadata(tree, [](Json& metadata) {
    metadata["tree_metadata"]["('note',)"] = parse_json(
        R"({"key_metadata": [{"key": "note", "key_type": 2}],
            "value_metadata": {"skip_deserialize": true, "value_type": "None"}})",
        "node");
  });
}

// Writes a DCP of small tensors.
inline std::string write_torch(const std::string& path, const std::vector<std::string>& names) {
  TorchCheckpoint torch;
  for (const std::string& name : names)
    torch.tensor(name, DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.write(path);
  return path;
}

inline PlanOptions reshard_options(const std::string& target) {
  PlanOptions out;
  out.target = target;
  out.mapping.scheme = "hf";
  out.tree.same = true;
  return out;
}

// Makes a list of the node whose children have paths of `depth` keys, in a tree that hfshard wrote.
inline void make_list(const std::string& tree, std::size_t depth) {
  edit_metadata(tree, [&](Json& metadata) {
    for (auto& [name, node] : metadata["tree_metadata"].object()) {
      Json::Array& keys = node["key_metadata"].array();
      if (keys.size() > depth) keys[depth - 1]["key_type"] = 1;
    }
  });
}

// Writes a DCP of one small tensor and of objects with these stored bytes.
inline std::string write_objects(const std::string& path,
                                 const std::vector<std::pair<std::string, std::string>>& objects) {
  TorchCheckpoint torch;
  torch.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  for (const auto& [name, bytes] : objects) torch.object(name, bytes);
  torch.write(path);
  return path;
}

}  // namespace hfshard
