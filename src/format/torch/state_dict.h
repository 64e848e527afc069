#pragma once

#include <string>
#include <vector>

#include "format/pickle.h"

namespace hfshard::format::torch {

/// The tensors of a model in a file of torch.save. The file has a dict of names, or a dict that has
/// one below `model`, `state_dict` or `module`, as trainers save it. Other entries can be next to
/// it, tensors too. Without such a key, the dicts in it are read as parts of one model, with dotted
/// names.
struct StateDict {
  struct Entry {
    std::string name;
    Pickle::Id value = 0;  ///< a tensor (is_tensor_pickle)
  };
  std::string below;                ///< path of keys to it, dotted
  std::vector<Entry> tensors;       ///< sorted by name
  std::vector<std::string> others;  ///< other keys, whose values are left out
};

/// Finds the tensors. `root`: the dotted path of the dict with them; empty to look for it. Throws:
/// unsupported (not a dict, or no tensors in it, with its keys; a name that isn't UTF-8), not_found
/// (no such dict), corrupt (a name twice), limit (the same dicts in too many places).
StateDict find_state_dict(const Pickle& pickle, const std::string& root = {});

}  // namespace hfshard::format::torch
