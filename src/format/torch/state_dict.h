#pragma once

#include <string>
#include <vector>

#include "format/pickle.h"

namespace hfshard::format::torch {

/// The tensors of a model in a file of torch.save. The file has a dict of names, or a dict that has
/// one below `model`, `state_dict` or `module`, as trainers save it. Without such a key, the dicts
/// in it are read as parts of one model, with dotted names.
struct StateDict {
  struct Entry {
    std::string name;
    Pickle::Id value = 0;  ///< a tensor (is_tensor_pickle)
  };
  std::string below;                ///< path of keys to it, dotted
  std::vector<Entry> tensors;       ///< sorted by name
  std::vector<std::string> others;  ///< other keys, without tensors
};

/// Finds the tensors. Throws: unsupported (not a dict, or no tensors in it, with its keys), corrupt
/// (a name twice).
StateDict find_state_dict(const Pickle& pickle);

}  // namespace hfshard::format::torch
