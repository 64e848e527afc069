#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/array.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Every scheme that common.json knows, MaxText's first, then "hf".
std::vector<SchemeSummary> known_schemes();

/// The dialects of scheme "hf", the usual one first.
std::vector<SchemeSummary> known_dialects();

/// The dialect of scheme "hf" that is asked for; empty of another scheme, or where names and shapes
/// are as they are stored.
std::string asked_dialect(const MappingOptions& options);
/// Whether the rules of a family are asked for: not names and shapes as they are stored.
bool has_rules(const MappingOptions& options);

/// Whether layers may be stacked in a scheme; in one that is not known, yes.
bool scheme_stacks(std::string_view name);

/// A glob that only names of this scheme match, so that a tree of another program is known by it;
/// empty where there is none.
std::string loader_sign(std::string_view scheme);

/// The default logical axis rules of a scheme, as text; of an unknown one, such as "hf", those of
/// MaxText.
std::string default_axis_rules(std::string_view scheme);

/// What the loader of a scheme looks for in a tree beside the arrays; nothing for an unknown one.
TreeExtras tree_extras(std::string_view scheme);

/// Names of the options that every load of a scheme's loader takes; empty for an unknown scheme.
struct LoaderOptions {
  std::string path;            ///< where the arrays are
  std::string format;          ///< the only one that it reads; empty: not said
  std::string stacked;         ///< whether layers are stacked
  std::string model;           ///< its name of the model
  std::string override_model;  ///< others may differ from what the named model has
  std::string layers;          ///< how many layers the decoder has
};
LoaderOptions loader_options(std::string_view scheme);

/// Name, in a checkpoint's metadata, of what says whether layers are stacked; of an unknown scheme,
/// MaxText's.
std::string stacked_flag(std::string_view scheme);

}  // namespace hfshard
