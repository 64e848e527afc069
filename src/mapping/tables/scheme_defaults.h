#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/array.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns every scheme of common.json, MaxText's first, then "hf".
std::vector<SchemeSummary> known_schemes();

/// Returns the dialects of scheme "hf", the usual one first.
std::vector<SchemeSummary> known_dialects();

/// Returns the requested dialect of scheme "hf". Empty for another scheme, or if names and shapes
/// stay as they are stored.
std::string asked_dialect(const MappingOptions& options);
/// Returns whether a family's rules are requested: names and shapes don't stay as they are stored.
bool has_rules(const MappingOptions& options);

/// Returns whether a scheme allows stacked layers. True for an unknown scheme.
bool scheme_stacks(std::string_view name);

/// Returns a glob that only names of this scheme match, to recognize another program's tree. Empty
/// if there is no such glob.
std::string loader_sign(std::string_view scheme);

/// Returns the name that earlier releases of a scheme's loader have for an array, given its present
/// name. Returns the same name if they don't differ.
std::string former_name(std::string_view scheme, std::string name);

/// Returns whether a model computes an array with this dotted name from its config, and some
/// programs save it with the weights. No model of a family has a weight with such a name.
bool is_computed_buffer(std::string_view name);

/// Returns whether the loader of a scheme accepts a tree with these dotted names. Its sign must be
/// at the loader's place, and the loader must not refuse the form of any name. Sources:
/// AI-Hypercomputer/maxtext src/maxtext/utils/model_creation_utils.py from_pretrained,
/// src/maxtext/common/checkpointing.py.
bool loader_takes(std::string_view scheme, const std::vector<std::string>& names);

/// Returns the default logical axis rules of a scheme, as text. An unknown scheme, such as "hf",
/// has those of MaxText.
std::string default_axis_rules(std::string_view scheme);

/// Returns what the loader of a scheme reads from a tree in addition to the arrays. Empty for an
/// unknown scheme.
TreeExtras tree_extras(std::string_view scheme);

/// Returns whether trainers save an array with this dotted name next to the parameters, for an
/// optimizer, a schedule or a data loader.
bool is_training_state(std::string_view name);

/// Returns the releases of a scheme's loader that have different trees, the newest first. Empty if
/// there is only one. An option with the scheme's name selects one; the default is the newest.
std::vector<std::string> releases_of(std::string_view scheme);
/// Returns the requested release, given its name or commit. Throws: usage (with the existing ones).
std::string known_release(std::string_view scheme, const std::string& asked);

/// Returns a scheme's loader with the release that the options select: `MaxText 0.2.5`. Empty if it
/// has no loader.
std::string loader_name(std::string_view scheme, const std::map<std::string, std::string>& options);

/// The names of a loader's options that every load uses. Empty for an unknown scheme.
struct LoaderOptions {
  std::string name;            ///< the loader's own
  std::string path;            ///< for the arrays
  std::string state_path;      ///< for a training state; else `path`
  std::string with_state;      ///< additional, with a training state
  std::string always;          ///< for every load
  std::string assets;          ///< for the tokenizer
  std::string format;          ///< the only format that it reads
  std::string stacked;         ///< whether layers are stacked
  std::string model;           ///< its name of the model
  std::string with_model;      ///< its setting, given with the name
  std::string override_model;  ///< others may override the named model
  /// Options for a run's directory and name, and a directory in it.
  std::vector<std::string> run;
  std::vector<std::string> fixed;  ///< must be equal to share a name
  std::vector<std::string> free;   ///< may differ
  /// Change what a model computes, and none of its tensors.
  std::vector<std::string> computed;
};
LoaderOptions loader_options(std::string_view scheme);

/// Returns the metadata name that states whether layers are stacked. An unknown scheme has
/// MaxText's.
std::string stacked_flag(std::string_view scheme);

}  // namespace hfshard
