#include "service/tree_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "catalog/object.h"
#include "catalog/tree_structure.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/missing_layers.h"
#include "service/complete.h"
#include "service/described.h"
#include "service/own_names.h"
#include "service/recorded.h"
#include "service/renamed.h"
#include "service/run_directory.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

// Returns the form to which MaxText's exporter brings its names. It has no `value` at the end.
// Numbers of layers in a list become part of the list's name. Source: AI-Hypercomputer/maxtext
// src/maxtext/checkpoint_conversion/utils/utils.py param_key_parts_from_path.
std::string linen_name(const std::string& name) {
  std::string out;
  const Names parts = split(name, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != 0 && i + 1 == parts.size() && parts[i] == "value") break;
    const bool number = !parts[i].empty() && std::ranges::all_of(parts[i], is_digit);
    if (i != 0) out += number ? '_' : '.';
    out += parts[i];
  }
  return out;
}

// Returns whether a name is state of random number generators, not a weight. Source: the same file,
// extract_nnx_weights.
bool is_random_state(std::string_view name) {
  const Names parts = split(name, '.');
  return std::ranges::any_of(parts, [](const std::string& part) {
    return part == "rngs" || part == "to_nnx__rngs" || part.ends_with("_rngs");
  });
}

// Returns a model's name without `gone`, the keys above it that a tree lacks. A tree without the
// whole head also lacks the collections.
std::string tail_of(const Naming& naming, const std::string& gone, const std::string& name) {
  std::string_view tail = name;
  if (name.starts_with(gone)) {
    tail.remove_prefix(gone.size());
  } else if (gone == naming.head) {
    for (const std::string& collection : naming.collections) {
      if (name.starts_with(collection)) tail.remove_prefix(collection.size());
    }
  }
  return naming.nnx ? linen_name(std::string(tail)) : std::string(tail);
}

// A possible place for a model. The names below `root` are those of `naming` without `gone`.
struct ModelPlace {
  const Naming* naming = nullptr;
  std::string root;  // with a dot at the end
  std::string gone;  // the part of the naming's head that the tree lacks
  std::size_t found = 0;
  bool of_optimizer() const { return root.starts_with("opt") || root.find(".opt") != root.npos; }
};

std::size_t count_stored(const Catalog& tree, const Naming& naming) {
  return static_cast<std::size_t>(std::ranges::count_if(tree.tensors, [&](const TensorInfo& info) {
    return std::ranges::binary_search(naming.names, info.name);
  }));
}

class ModelFinder {
 public:
  ModelFinder(const Catalog& tree, const std::vector<Naming>& namings)
      : tree_(tree), namings_(namings) {
    for (const TensorInfo& info : tree.tensors) {
      plain_.push_back(without_wrappers(info.name));
      linen_.push_back(linen_name(plain_.back()));
    }
  }

  // Returns the place with the most names. Returns nothing if all of these names are already the
  // model's.
  std::optional<ModelPlace> find() const {
    std::vector<ModelPlace> places = all_places();
    std::erase_if(places, [](const ModelPlace& place) { return place.of_optimizer(); });
    if (places.empty() || places.front().found <= most_present()) return std::nullopt;
    refuse_two(places);
    return places.front();
  }

  // Returns the naming for most of the tree's names, in any form. An optimizer's names count too.
  const Naming& naming() const {
    const std::vector<ModelPlace> places = all_places();
    const Naming& stored = most_stored();
    return places.empty() || places.front().found <= count_stored(tree_, stored)
               ? stored
               : *places.front().naming;
  }

  // Returns the tree's names in the naming's form.
  const Names& names_for(const Naming& naming) const { return naming.nnx ? linen_ : plain_; }

 private:
  // Returns the places, the best first.
  std::vector<ModelPlace> all_places() const {
    std::vector<ModelPlace> out;
    for (const Naming& naming : namings_) add_places(naming, out);
    std::ranges::stable_sort(out, is_better);
    return out;
  }

  // Returns how many names the tree has in the best form of the present releases.
  std::size_t most_present() const {
    std::size_t most = 0;
    for (const Naming& naming : namings_) {
      if (naming.present.empty()) most = std::max(most, count_stored(tree_, naming));
    }
    return most;
  }

  const Naming& most_stored() const {
    return *std::ranges::max_element(
        namings_, {}, [&](const Naming& naming) { return count_stored(tree_, naming); });
  }

  static bool is_better(const ModelPlace& a, const ModelPlace& b) {
    if (a.found != b.found) return a.found > b.found;
    return a.gone.size() < b.gone.size();
  }

  static void refuse_two(const std::vector<ModelPlace>& places) {
    const ModelPlace& best = places.front();
    const auto other = std::ranges::find_if(places, [&](const ModelPlace& place) {
      return place.root != best.root && !is_better(best, place);
    });
    if (other == places.end()) return;
    const ModelPlace& below = best.root.empty() ? *other : best;
    throw Error(ErrorCode::usage,
                fmt::format("the checkpoint has the model more than once: {} and {}",
                            words_for_place(best.root), words_for_place(other->root)))
        .hint(fmt::format("pass --root {} to read that one", key_of(below.root)));
  }

  static std::string key_of(const std::string& root) {
    return root.substr(0, root.empty() ? 0 : root.size() - 1);
  }

  // Uses a few names of the model to find keys above it. Then counts all names below those keys.
  void add_places(const Naming& naming, std::vector<ModelPlace>& out) const {
    const Names& tree = names_for(naming);
    for (std::string gone = naming.head;; gone = gone.substr(0, shorter(gone))) {
      std::set<std::string, std::less<>> tails;
      for (const std::string& name : naming.names) tails.insert(tail_of(naming, gone, name));
      for (const std::string& root : roots_of(tails, tree)) {
        ModelPlace place{&naming, root, gone, 0};
        for (const std::string& name : tree) {
          if (name.starts_with(root) && tails.contains(std::string_view(name).substr(root.size())))
            ++place.found;
        }
        if (2 * place.found > tails.size()) out.push_back(std::move(place));
      }
      if (gone.empty()) break;
    }
  }

  // Returns the end of a head without its last key.
  static std::size_t shorter(const std::string& head) {
    const std::size_t dot = head.size() < 2 ? std::string::npos : head.rfind('.', head.size() - 2);
    return dot == std::string::npos ? 0 : dot + 1;
  }

  static std::set<std::string> roots_of(const std::set<std::string, std::less<>>& tails,
                                        const Names& tree) {
    constexpr std::size_t kProbes = 5;
    std::set<std::string> out;
    std::size_t at = 0;
    for (const std::string& tail : tails) {
      if (at++ % (tails.size() / kProbes + 1) != 0) continue;
      for (const std::string& name : tree) {
        const bool ends = name.ends_with(tail);
        if (ends && (name.size() == tail.size() || name[name.size() - tail.size() - 1] == '.'))
          out.insert(name.substr(0, name.size() - tail.size()));
      }
    }
    return out;
  }

  const Catalog& tree_;
  const std::vector<Naming>& namings_;
  Names plain_;
  Names linen_;
};

void check_twice(const std::vector<NamedArray>& arrays, const Catalog& tree) {
  std::unordered_map<std::string_view, std::uint32_t> seen;
  for (const NamedArray& array : arrays) {
    const auto [other, added] = seen.emplace(array.name, array.array);
    if (added) continue;
    throw Error(ErrorCode::bad_input, fmt::format("{} and {} are the same tensor of the model",
                                                  quote(tree.tensors[other->second].name),
                                                  quote(tree.tensors[array.array].name)))
        .in_file(tree.location)
        .in_tensor(array.name)
        .hint("save the state dict of the unwrapped model");
  }
}

// Maps a tree's name below some key to the model's name. The tree's name lacks `gone`.
std::unordered_map<std::string, std::string> names_by_tail(const Naming& naming,
                                                           const std::string& gone) {
  std::unordered_map<std::string, std::string> out;
  for (std::size_t i = 0; i < naming.names.size(); ++i)
    out.emplace(tail_of(naming, gone, naming.names[i]), naming.present_name(i));
  return out;
}

// Returns the model's arrays below kAside, unless the tree has them in their place.
std::vector<NamedArray> arrays_aside(const Catalog& tree, const Naming& naming) {
  std::vector<NamedArray> out;
  if (!naming.nnx) return out;
  const auto model = names_by_tail(naming, naming.head);
  for (std::uint32_t i = 0; i < tree.tensors.size(); ++i) {
    const std::string& name = tree.tensors[i].name;
    if (!name.starts_with(kAside)) continue;
    const auto known = model.find(linen_name(name.substr(kAside.size())));
    if (known != model.end() && !tree.find(known->second)) out.push_back({i, known->second});
  }
  return out;
}

// Returns a tree's entries that are neither arrays nor the model's. These are objects outside
// `root`, strings and empty nodes. Names of arrays can't tell whose strings and nodes they are. An
// empty node that a loader looks for doesn't count.
Names entries_beside(const Catalog& tree, const std::string& root) {
  Names out;
  for (const ObjectInfo& object : tree.objects) {
    if (!object.name.starts_with(root)) out.push_back(object.name);
  }
  if (tree.structure == nullptr) return out;
  const std::vector<SchemeSummary> schemes = known_schemes();
  for (const TreeEntry& entry : tree.structure->entries) {
    const auto looked_for = [&](const SchemeSummary& scheme) {
      return entry.path == tree_extras(scheme.name).empty;
    };
    if (entry.kind != TreeEntry::Kind::array && std::ranges::none_of(schemes, looked_for))
      out.push_back(entry.path);
  }
  return out;
}

// Returns the tree with these arrays in their place. All others keep their names.
std::shared_ptr<const Checkpoint> with_arrays_in_place(std::shared_ptr<const Checkpoint> tree,
                                                       const std::vector<NamedArray>& aside) {
  if (aside.empty()) return tree;
  const std::vector<TensorInfo>& all = tree->catalog().tensors;
  std::vector<NamedArray> arrays;
  for (std::uint32_t i = 0; i < all.size(); ++i) arrays.push_back({i, all[i].name});
  for (const NamedArray& array : aside) arrays[array.array].name = array.name;
  const bool one = aside.size() == 1;
  const std::string note =
      fmt::format("{} of the model {} found below {}, first {}",
                  one ? "1 array" : fmt::format("{} arrays", aside.size()), one ? "was" : "were",
                  quote(kAside.substr(0, kAside.size() - 1)), quote(all[aside[0].array].name));
  return renamed(std::move(tree), std::move(arrays), {note});
}

// Returns the tree without the arrays that the model computes, under the present names.
std::shared_ptr<const Checkpoint> without_computed(std::shared_ptr<const Checkpoint> tree,
                                                   const std::vector<Naming>& namings) {
  const auto is_weight = [&](const std::string& name) {
    return std::ranges::any_of(namings, [&](const Naming& naming) {
      return std::ranges::binary_search(naming.names, name);
    });
  };
  const std::vector<TensorInfo>& all = tree->catalog().tensors;
  std::vector<NamedArray> arrays;
  Names computed;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (is_computed_buffer(all[i].name) && !is_weight(all[i].name)) {
      computed.push_back(all[i].name);
    } else {
      arrays.push_back({i, all[i].name});
    }
  }
  if (computed.empty()) return tree;
  return renamed(std::move(tree), std::move(arrays), {computed_note(computed)});
}

// Throws: not_found, with names as the tree has them.
[[noreturn]] void refuse_missing(const Catalog& tree, const Naming& naming, const Names& missing) {
  const std::string layers = missing_layers(naming.names, missing);
  throw Error(ErrorCode::not_found,
              missing.size() == 1
                  ? fmt::format("the checkpoint lacks one {} of the model", tree.wording.array)
                  : fmt::format("the checkpoint lacks {} {} of the model", missing.size(),
                                tree.wording.arrays))
      .in_file(tree.location)
      .in_tensor(missing.front())
      .hint(fmt::format("its names are {}, and the model of --config has {}{}: pass the config of "
                        "this model, or save the whole model",
                        naming.about, naming.names.size(), layers.empty() ? "" : "; " + layers));
}

// Throws: not_found, if a tree with the names of an earlier release lacks one.
void check_former(const Catalog& tree, const ModelPlace& place, const Names& names) {
  if (place.naming->present.empty() || place.found == place.naming->names.size()) return;
  const std::set<std::string, std::less<>> there(names.begin(), names.end());
  Names missing;
  for (const std::string& name : place.naming->names) {
    if (!there.contains(place.root + tail_of(*place.naming, place.gone, name)))
      missing.push_back(name);
  }
  if (!missing.empty()) refuse_missing(tree, *place.naming, missing);
}

// Returns the tree at a place, with the model's names.
std::shared_ptr<const Checkpoint> at_place(std::shared_ptr<const Checkpoint> tree,
                                           const ModelFinder& finder, const ModelPlace& place) {
  const Catalog& catalog = tree->catalog();
  const auto model = names_by_tail(*place.naming, place.gone);
  const Names& names = finder.names_for(*place.naming);
  std::vector<NamedArray> arrays;
  Names random;
  Names beside;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (!names[i].starts_with(place.root)) {
      beside.push_back(catalog.tensors[i].name);
    } else if (place.naming->nnx && is_random_state(catalog.tensors[i].name)) {
      random.push_back(catalog.tensors[i].name);
    } else {
      const std::string rest = names[i].substr(place.root.size());
      const auto known = model.find(rest);
      arrays.push_back({i, known == model.end() ? place.gone + rest : known->second});
    }
  }
  check_twice(arrays, catalog);
  Names notes;
  if (!place.root.empty()) {
    std::string note =
        fmt::format("found the model below {}", quote(place.root.substr(0, place.root.size() - 1)));
    if (!beside.empty()) {
      note += fmt::format("; left out: {} array{} next to it, first {}", beside.size(),
                          beside.size() == 1 ? "" : "s", quote(beside.front()));
    }
    notes.push_back(std::move(note));
  }
  if (!place.naming->present.empty())
    notes.push_back(fmt::format("hfshard read its names as {}", place.naming->about));
  if (place.naming->nnx) {
    notes.emplace_back("hfshard read its names as those of MaxText's pretraining");
  } else if (!place.gone.empty()) {
    notes.push_back(fmt::format("hfshard put {} before its names", quote(place.gone)));
  } else if (place.root.empty() && place.naming->present.empty()) {
    notes.emplace_back("hfshard removed wrappers from its names");
  }
  if (!random.empty()) {
    notes.push_back(fmt::format("left out: {} array{} of random number generators, first {}",
                                random.size(), random.size() == 1 ? "" : "s",
                                quote(random.front())));
  }
  if (const Names others = entries_beside(catalog, place.root); !others.empty()) {
    notes.push_back(fmt::format("left out, because hfshard reads only the model's arrays: {}",
                                quoted_list(others)));
  }
  return renamed(std::move(tree), std::move(arrays), notes, place.root);
}

}  // namespace

std::string words_for_place(std::string_view prefix) {
  if (prefix.empty()) return "at the top";
  prefix.remove_suffix(1);
  return "below " + quote(prefix);
}

std::vector<SchemeSummary> schemes_of_names(const Catalog& tree) {
  std::vector<SchemeSummary> out = known_schemes();
  std::erase_if(out, [&](const SchemeSummary& scheme) {
    const std::string sign = loader_sign(scheme.name);
    return sign.empty() || std::ranges::none_of(tree.tensors, [&](const TensorInfo& info) {
             return glob_match(sign, info.name);
           });
  });
  return out;
}

std::shared_ptr<const Checkpoint> with_model_names(std::shared_ptr<const Checkpoint> tree,
                                                   const TreeOptions& asked,
                                                   const MappingOptions& mapping) {
  if (!asked.config_text || !mapping.prefix.empty()) return tree;
  const std::vector<Naming> namings = namings_of(*asked.config_text, asked.config_name, mapping);
  if (namings.empty()) return with_names_by_config(std::move(tree), *asked.config_text, mapping);
  const ModelFinder finder(tree->catalog(), namings);
  const std::optional<ModelPlace> place = finder.find();
  if (place && mapping.include.empty() && !mapping.num_layers)
    check_former(tree->catalog(), *place, finder.names_for(*place->naming));
  if (place) return without_computed(at_place(std::move(tree), finder, *place), namings);
  const std::vector<NamedArray> aside = arrays_aside(tree->catalog(), finder.naming());
  return without_computed(with_arrays_in_place(std::move(tree), aside), namings);
}

std::vector<std::string> names_in_model(const Catalog& tree, const TreeOptions& asked,
                                        const MappingOptions& mapping) {
  Names out;
  for (const TensorInfo& info : tree.tensors) out.push_back(info.name);
  const std::vector<Naming> namings = namings_of(*asked.config_text, asked.config_name, mapping);
  if (namings.empty()) return out;
  const ModelFinder finder(tree, namings);
  const Naming& naming = finder.naming();
  const auto model = names_by_tail(naming, naming.head);
  const Names& names = finder.names_for(naming);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t at = 0; at != std::string::npos;) {  // the longest known end
      const auto known = model.find(names[i].substr(at));
      if (known != model.end()) {
        out[i] = known->second;
        break;
      }
      const std::size_t dot = names[i].find('.', at);
      at = dot == std::string::npos ? dot : dot + 1;
    }
  }
  return out;
}

bool has_names_of_files(const Catalog& tree, const TreeOptions& asked,
                        const MappingOptions& mapping) {
  if (!find_family(parse_json(*asked.config_text, asked.config_name), mapping.files))
    return schemes_of_names(tree).empty();
  std::size_t files = 0;
  std::size_t others = 0;
  for (const Naming& naming : namings_of(*asked.config_text, asked.config_name, mapping)) {
    std::size_t& most = naming.files ? files : others;
    most = std::max(most, count_stored(tree, naming));
  }
  return files + others > 0 ? files > others
                            : count_lacking(tree, *asked.config_text, mapping) == 0;
}

void refuse_missing(const Catalog& tree, const TreeOptions& asked, const MappingOptions& mapping) {
  const std::vector<Naming> namings = namings_of(*asked.config_text, asked.config_name, mapping);
  if (namings.empty()) return;
  const Naming* best = nullptr;
  std::size_t most = 0;
  for (const Naming& naming : namings) {
    const std::size_t found = count_stored(tree, naming);
    const bool fewer = best != nullptr && naming.names.size() < best->names.size();
    if (best != nullptr && (found < most || (found == most && !fewer))) continue;
    most = found;
    best = &naming;
  }
  if (best->about.empty() || most <= count_stored(tree, namings.back())) return;
  Names missing = best->names;
  std::erase_if(missing, [&](const std::string& name) { return tree.find(name).has_value(); });
  if (missing.empty()) return;
  const auto as_files = count_lacking(tree, *asked.config_text, mapping);
  if (as_files && *as_files < missing.size()) return;  // a release's names that no naming has
  refuse_missing(tree, *best, missing);
}

Completeness check_undone(const Catalog& tree, const CompiledModel& made, const std::string& text,
                          const TreeOptions& asked, const MappingOptions& mapping) {
  try {
    const std::vector<Array> files(made.leaves.begin(), made.leaves.end());
    return check_complete(tensors_of(files, text, tree), mapping);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) refuse_missing(tree, asked, mapping);
    throw;
  }
}

TreeOptions with_config_beside(const StorePath& place, TreeOptions asked) {
  const StorePath config = model_place(place) / "config.json";
  if (asked.config_text || !config.is_file() || recorded_below(place, asked.root)) return asked;
  asked.config_text = config.read();
  asked.config_name = config.text();
  return asked;
}

}  // namespace hfshard
