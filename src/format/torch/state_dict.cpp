#include "format/torch/state_dict.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "format/tensor_pickle.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Id = Pickle::Id;
using Kind = Pickle::Kind;

// Keys under which trainers store the model. Source: Lightning-AI/pytorch-lightning
// src/lightning/pytorch/trainer/connectors/checkpoint_connector.py (state_dict);
// deepspeedai/DeepSpeed deepspeed/runtime/engine.py (module); facebookresearch/detectron2
// detectron2/checkpoint (model).
constexpr std::array<std::string_view, 5> kModelKeys{"model", "state_dict", "module",
                                                     "model_state_dict", "model_state"};
constexpr int kDeepest = 4;
constexpr std::size_t kShownKeys = 8;

template <typename Visit>
void for_each_item(const Pickle& pickle, Id dict, const Visit& visit) {
  pickle.for_each_run(dict, [&](std::span<const Id> run) {
    for (std::size_t i = 0; i + 1 < run.size(); i += 2) visit(run[i], run[i + 1]);
  });
}

std::string key_text(const Pickle& pickle, Id key) {
  if (pickle.is(key, Kind::text)) return std::string(pickle.text(key));
  if (pickle.is(key, Kind::integer)) return fmt::format("{} (a number)", pickle.integer(key));
  return "(a key that isn't a string)";
}

using Seen = std::set<Id>;

// Returns whether a dict has tensors, or a dict in it that has some.
bool has_tensors(const Pickle& pickle, Id dict, int depth, Seen& seen) {
  bool out = false;
  if (!pickle.is(dict, Kind::dict) || !seen.insert(dict).second) return out;
  for_each_item(pickle, dict, [&](Id key, Id value) {
    if (!pickle.is(key, Kind::text)) return;
    out = out || is_tensor_pickle(pickle, value) ||
          (depth < kDeepest && has_tensors(pickle, value, depth + 1, seen));
  });
  return out;
}

bool has_tensors(const Pickle& pickle, Id dict) {
  Seen seen;
  return has_tensors(pickle, dict, 0, seen);
}

// Returns the value of the first of these keys, if it has tensors. A model's own names aren't
// dicts.
std::optional<std::pair<std::string, Id>> model_below(const Pickle& pickle, Id dict) {
  if (!pickle.is(dict, Kind::dict)) return std::nullopt;
  for (const std::string_view key : kModelKeys) {
    const auto found = pickle.find(dict, key);
    if (found && has_tensors(pickle, *found)) return std::pair(std::string(key), *found);
  }
  return std::nullopt;
}

[[noreturn]] void throw_no_tensors(const Pickle& pickle, Id root) {
  if (!pickle.is(root, Kind::dict)) {
    const std::string made =
        pickle.is(root, Kind::call) ? pickle.global_name(pickle.callee(root)) : std::string();
    throw Error(ErrorCode::unsupported,
                made.empty() ? "the file doesn't hold a dict of tensors"
                             : fmt::format("the file holds an object that {} makes, not a dict of "
                                           "tensors",
                                           quote(made)))
        .hint("save model.state_dict() with torch.save");
  }
  std::vector<std::string> keys;
  for_each_item(pickle, root, [&](Id key, Id) { keys.push_back(key_text(pickle, key)); });
  throw Error(ErrorCode::unsupported,
              keys.empty()
                  ? "the file holds an empty dict"
                  : fmt::format("the file's dict has no tensors with text as keys, not even "
                                "below the keys where trainers keep a model; it has {}",
                                quoted_list(keys, kShownKeys)))
      .hint("save model.state_dict() with torch.save");
}

[[noreturn]] void throw_no_root(const Pickle& pickle, Id dict, const std::string& root) {
  std::vector<std::string> keys;
  if (pickle.is(dict, Kind::dict)) {
    for_each_item(pickle, dict, [&](Id key, Id value) {
      if (pickle.is(value, Kind::dict)) keys.push_back(key_text(pickle, key));
    });
  }
  throw Error(ErrorCode::not_found, fmt::format("the file has no dict at {}", quote(root)))
      .hint(keys.empty() ? "leave out --root"
                         : fmt::format("the dicts there are {}", quoted_list(keys, kShownKeys)));
}

struct Level {
  std::string above;   // keys on the path to the model
  std::string prefix;  // of names in this dict: `generator.`
  int depth;
};

// Collects the tensors of a dict and of the dicts in it, which can be several models. Joins their
// keys with dots.
class NestedDicts {
 public:
  NestedDicts(const Pickle& pickle, StateDict& out)
      : pickle_(pickle), out_(out), left_(kMostRepeats * pickle.values()) {}

  void add(Id dict, const Level& at) {
    if (!pickle_.is(dict, Kind::dict)) return;
    for_each_item(pickle_, dict, [&](Id key, Id value) {
      if (left_-- == 0)  // a small file can nest one dict any number of times
        throw Error(ErrorCode::limit, "the file has the same dicts in too many places");
      const bool is_text = pickle_.is(key, Kind::text);
      const std::string name = at.prefix + key_text(pickle_, key);
      if (is_text && is_tensor_pickle(pickle_, value)) {
        out_.tensors.push_back({name, value});
      } else if (is_text && at.depth < kDeepest && pickle_.is(value, Kind::dict)) {
        add(value, {at.above, name + ".", at.depth + 1});
      } else {
        out_.others.push_back(at.above + name);
      }
    });
  }

 private:
  static constexpr std::uint64_t kMostRepeats = 16;
  const Pickle& pickle_;
  StateDict& out_;
  std::uint64_t left_;  // entries that can be read
};

void check_names(const std::vector<StateDict::Entry>& sorted) {
  const auto twice = std::ranges::adjacent_find(sorted, {}, &StateDict::Entry::name);
  if (twice != sorted.end())
    throw Error(ErrorCode::corrupt, "the file has the tensor twice").in_tensor(twice->name);
  for (const StateDict::Entry& entry : sorted) {
    if (!is_utf8(entry.name))
      throw Error(ErrorCode::unsupported, "the name isn't valid Unicode")
          .in_tensor(entry.name)
          .hint("save the state dict with other names");
  }
}

}  // namespace

StateDict find_state_dict(const Pickle& pickle, const std::string& root) {
  StateDict out;
  Id dict = pickle.root();
  const auto descend = [&](const std::string& taken, Id value) {
    for_each_item(pickle, dict, [&](Id key, Id) {
      if (std::string text = key_text(pickle, key); text != taken)
        out.others.push_back(out.below + std::move(text));
    });
    out.below += taken + ".";
    dict = value;
  };
  if (root.empty()) {
    for (int depth = 0; depth < kDeepest; ++depth) {
      const auto below = model_below(pickle, dict);
      if (!below) break;
      descend(below->first, below->second);
    }
  } else {
    for (const std::string& key : split(root, '.')) {
      const auto found = pickle.is(dict, Kind::dict) ? pickle.find(dict, key) : std::optional<Id>();
      if (!found || !pickle.is(*found, Kind::dict)) throw_no_root(pickle, dict, root);
      descend(key, *found);
    }
  }
  NestedDicts(pickle, out).add(dict, {out.below, "", 0});
  if (out.tensors.empty()) throw_no_tensors(pickle, dict);
  if (!out.below.empty()) out.below.pop_back();
  std::ranges::sort(out.tensors, {}, &StateDict::Entry::name);
  check_names(out.tensors);
  return out;
}

}  // namespace hfshard::format::torch
